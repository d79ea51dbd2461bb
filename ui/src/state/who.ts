import { computed, signal } from "@preact/signals";
import { call, Refused, type Schemas } from "../api/call";
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
    return err instanceof Refused && err.problem.code === "route_not_found";
  }
}

/** Opens the session of the link that the page came by, if it did, and asks who it is. */
export async function begin(): Promise<void> {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (location.hash) history.replaceState(null, "", location.pathname + location.search);
  try {
    if (code) await call("openSession", { body: { code } });
  } catch (err) {
    connection.over((err as Error).message);
    return;
  }
  try {
    const who = await call("getSelf");
    if (!who.kind || who.relations.some((r) => r.startsWith("plane#"))) elsewhere.value = await planeIsElsewhere();
    self.value = who;
    if (projects.value.length > 0 && !projects.value.includes(usualProject.value) && !may.readPlane.value) usualProject.value = projects.value[0]!;
  } catch {
    // said by the page: there is no session, or no plane
  }
}
