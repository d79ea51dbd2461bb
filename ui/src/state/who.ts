import { computed, signal } from "@preact/signals";
import { call, passes, Refused, type Schemas } from "../api/call";
import * as connection from "./connection";
import { project, usualProject } from "./route";

/** Whom the plane takes the page for; null until it has said so. */
export const self = signal<Schemas["Self"] | null>(null);

const relations = computed(() => self.value?.relations ?? []);

/** Whether access is not configured: everybody may do anything. */
export const open = computed(() => self.value !== null && !self.value.kind);

// Whether the routes of the whole plane are at another address than the page.
const elsewhere = signal(false);

const has = (...names: string[]) => open.value || names.some((n) => relations.value.includes(n));

/** What may be asked; the plane decides all the same. */
export const may = {
  readPlane: computed(() => has("plane#read", "plane#admin") && !elsewhere.value),
  administer: computed(() => has("plane#admin")),
  operate: computed(() => has("plane#admin", `project:${project.value}#operator`)),
  seeProject: computed(() => has("plane#admin", `project:${project.value}#operator`, `project:${project.value}#read`)),
  seePolicies: computed(() => has("plane#admin", ...["read", "edit", "manage"].map((r) => `project:${project.value}#${r}`))),
  write: (policy: string) => has("plane#admin") || has(`project:${project.value}#operator`) && has(`project:${project.value}#manage`, `policy:${policy}#manage`),
  edit: (policy: string) => has("plane#admin", `project:${project.value}#manage`, `project:${project.value}#edit`, `policy:${policy}#manage`, `policy:${policy}#edit`),
};

/** The projects that its relations name. */
export const projects = computed(() => [...new Set(relations.value.filter((r) => r.startsWith("project:")).map((r) => r.slice("project:".length).split("#")[0]!))]);

async function planeIsElsewhere(): Promise<boolean> {
  try {
    await call("countNodes", { query: { limit: 1 } });
    return false;
  } catch (err) {
    if (passes(err)) throw err;
    return err instanceof Refused && err.problem.code === "route_not_found";
  }
}

/** Why it is not known for whom the plane takes the page. */
export const barred = signal<Error | undefined>(undefined);

// until asks until there is an answer that stands.
async function until<T>(ask: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      const answer = await ask();
      barred.value = undefined;
      return answer;
    } catch (err) {
      if (!passes(err)) throw err;
      barred.value = err as Error;
      await new Promise((done) => setTimeout(done, 1000));
    }
  }
}

// forget drops what was drafted here, which is not for who comes next.
function forget(): void {
  try {
    sessionStorage.clear();
  } catch {
    // a browser that keeps nothing has nothing
  }
}

/** Takes the session's cookie back, which only the plane can: without an answer there still is a session. */
export async function signOut(): Promise<void> {
  connection.leaving.value = true;
  try {
    await until(() => call("closeSession"));
    forget();
    connection.over("The session is closed.");
  } catch (err) {
    connection.over(`The session is not closed: ${(err as Error).message}`);
  }
  connection.leaving.value = false;
}

// Why a sign-in came to nothing, by the word that the plane has for it.
const failures: Record<string, string> = {
  denied: "The issuer did not let you in.",
  over: "The sign-in took too long, or was begun in another browser.",
  unknown: "The issuer knows you, and no principal of this plane does. Whoever administers it gives one your issuer and subject.",
  too_long: "The issuer's identity token is too long for a browser's cookie. Whoever administers the issuer can take claims out of it.",
  failed: "The sign-in failed. The plane's log says why.",
};

/** Opens the session of the link that the page came by, if it did, and asks who it is. */
export async function begin(): Promise<void> {
  const came = new URLSearchParams(location.hash.slice(1));
  const code = came.get("code");
  const failed = came.get("sign_in");
  if (location.hash) history.replaceState(null, "", location.pathname + location.search);
  if (failed) {
    connection.over(failures[failed] ?? failures.failed!);
    return;
  }
  try {
    if (code) await until(() => call("openSession", { body: { code } }));
  } catch (err) {
    connection.over((err as Error).message);
    return;
  }
  try {
    const who = await until(() => call("getSelf"));
    if (!who.kind || who.relations.some((r) => r.startsWith("plane#"))) elsewhere.value = await until(planeIsElsewhere);
    self.value = who;
    if (projects.value.length > 0 && !projects.value.includes(usualProject.value) && !may.readPlane.value) usualProject.value = projects.value[0]!;
  } catch (err) {
    barred.value = err as Error; // without a session the page says that instead
  }
}

/** Takes a link that is followed where the page is open already: the browser then loads nothing. */
export function listenToLinks(): void {
  addEventListener("hashchange", () => {
    if (/^#(code|sign_in)=/.test(location.hash)) location.reload();
  });
}
