import { project } from "../state/route";
import { may } from "../state/who";
import { call, type Schemas } from "./call";

interface By {
  by?: string | undefined;
  limit?: number;
}

/** Nodes of the plane, or of the project, as the reader may. */
async function count(query: By & { at?: string }, signal: AbortSignal) {
  return may.readPlane.value ? call("countNodes", { query }, signal) : call("countProjectNodes", { path: { project: project.value }, query }, signal);
}

/** Nodes by where they stand now, by the value of a label too. */
export async function counts(query: By, signal: AbortSignal): Promise<Schemas["NodeCounts"]> {
  return (await count(query, signal)) as Schemas["NodeCounts"];
}

/** The nodes that there were after a sequence of the log. */
export async function countsThen(seq: number, query: By, signal: AbortSignal): Promise<Schemas["PastCounts"]> {
  return count({ ...query, at: String(seq) }, signal);
}
