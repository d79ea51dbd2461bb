import { call, everyItem, type Schemas } from "../api/call";
import { project } from "./route";

let known: { project: string; at: number; list: Promise<Schemas["Policy"][]> } | undefined;

/** Every policy of the project that is shown, as it was at most ten seconds ago. */
export function allPolicies(): Promise<Schemas["Policy"][]> {
  if (!known || known.project !== project.value || Date.now() - known.at > 10_000) {
    const list = walk(project.value);
    known = { project: project.value, at: Date.now(), list };
    list.catch(() => (known = undefined));
  }
  return known.list;
}

async function walk(of: string): Promise<Schemas["Policy"][]> {
  const all = await everyItem((cursor) => call("listPolicies", { path: { project: of }, query: { limit: 200, cursor } }));
  return all.sort((a, b) => a.slug.localeCompare(b.slug));
}
