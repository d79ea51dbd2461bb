import { routes } from "./routes";
import type { components, operations } from "./schema";
import * as connection from "../state/connection";
import { setClock } from "../state/time";

export type Schemas = components["schemas"];
export type Problem = Schemas["Problem"];
export type Operation = keyof typeof routes & keyof operations;

/** A request that was refused. */
export class Refused extends Error {
  constructor(public readonly problem: Problem) {
    super(problem.detail || problem.title);
  }
}

/** Whether a request that was sent later would perhaps not be refused, or would reach the plane. */
export const passes = (err: unknown) => err instanceof Unreachable || (err instanceof Refused && (err.problem.status === 429 || err.problem.status >= 500));

/** The plane did not answer. */
export class Unreachable extends Error {
  constructor() {
    super("The plane does not answer.");
  }
}

type Parameters<O extends Operation> = operations[O]["parameters"];
type Body<O extends Operation> = operations[O] extends { requestBody: { content: { "application/json": infer B } } } ? B : never;
type Answer<O extends Operation> = operations[O]["responses"] extends { 200: { content: { "application/json": infer A } } } ? A
  : operations[O]["responses"] extends { 201: { content: { "application/json": infer A } } } ? A : void;

export interface Given<O extends Operation> {
  path?: Parameters<O>["path"];
  query?: Parameters<O>["query"];
  body?: Body<O>;
  /** The body, or an answer, as JSON that has what somebody wrote: its numbers stay as they were written. */
  text?: string;
  verbatim?: boolean;
}

// What browsers have by now, and the types do not: a number as it was written.
const rawJSON = (JSON as { rawJSON?: (text: string) => unknown }).rawJSON;

/** What a text in JSON says. A number that this page could not hold is kept as it was written, for JSON.stringify alone. */
export function parsed(text: string): unknown {
  const large = (_: string, value: unknown, context?: { source?: string }) =>
    typeof value === "number" && context?.source && rawJSON && (!Number.isFinite(value) || (Number.isInteger(value) && !Number.isSafeInteger(value))) ? rawJSON(context.source) : value;
  return JSON.parse(text, large as (key: string, value: unknown) => unknown);
}

/** Where an operation is, with its parameters. */
export function address(op: Operation, path: object = {}, query: object = {}): string {
  const at = routes[op][1].replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String((path as Record<string, unknown>)[name])));
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== "") search.set(name, String(value));
  }
  return search.size > 0 ? `${at}?${search}` : at;
}

/** Sends a request and reads its answer; throws Refused or Unreachable. */
export async function call<O extends Operation>(op: O, given: Given<O> = {}, signal?: AbortSignal): Promise<Answer<O>> {
  const headers: Record<string, string> = { Accept: "application/json" };
  const body = given.text ?? (given.body === undefined ? undefined : JSON.stringify(given.body));
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const res = await reach(address(op, given.path, given.query), {
    method: routes[op][0], headers, signal, body,
  });
  if (res.status === 204) return undefined as Answer<O>;
  return (given.verbatim ? parsed(await res.text()) : await res.json()) as Answer<O>;
}

/** All items of a list that the plane gives in pages; ask asks for the page at a cursor, at first for the first one. */
export async function everyItem<T>(ask: (cursor?: string) => Promise<{ items: T[]; next_cursor: string | null }>): Promise<T[]> {
  const all: T[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await ask(cursor);
    all.push(...page.items);
    if (!page.next_cursor) return all;
    cursor = page.next_cursor;
  }
}

// Statuses by which something in between says that it does not reach the plane, whose own answers are problems.
const between = [502, 503, 504];

const slow = 10_000; // an answer that takes so long may be one that never comes

/** Sends any request; throws Refused or Unreachable, or what the signal ends it with. */
export async function reach(url: string, init: RequestInit): Promise<Response> {
  let res: Response;
  const doubts = setTimeout(connection.doubt, slow);
  try {
    const reads = (init.method ?? "GET") === "GET"; // what a write came to is worth waiting for
    const ends = [init.signal, reads ? connection.alive() : undefined].filter((s) => !!s);
    res = await fetch(url, { credentials: "same-origin", cache: "no-store", ...init, signal: AbortSignal.any(ends) });
  } catch (err) {
    if (init.signal?.aborted) throw err;
    connection.lost();
    throw new Unreachable();
  } finally {
    clearTimeout(doubts);
  }
  if (between.includes(res.status) && !res.headers.get("Content-Type")?.includes("json")) {
    connection.lost();
    throw new Unreachable();
  }
  connection.answered();
  setClock(res.headers.get("Date"));
  if (res.ok) return res;
  const problem = await problemOf(res);
  if (res.status === 401) connection.over(problem.detail ?? problem.title);
  throw new Refused(problem);
}

async function problemOf(res: Response): Promise<Problem> {
  try {
    return (await res.json()) as Problem;
  } catch {
    return { type: "about:blank", title: res.statusText, status: res.status, code: "internal", detail: `${res.status} ${res.statusText}` } as unknown as Problem;
  }
}
