import { computed, signal } from "@preact/signals";
import { word } from "./word";

const base = "/ui/";

/** Where the page is, as a view below /ui/ and its query. */
export const place = signal(read());

function read() {
  const at = new URL(location.href);
  const parts = at.pathname.slice(base.length).split("/").filter(Boolean).map(plain);
  return { view: parts[0] ?? "fleet", name: parts[1] ?? "", query: at.searchParams };
}

// plain is a part of an address as it was before it was escaped; one that no text gives is shown as it stands.
function plain(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** One value of the query, or what stands for its absence. */
export function asked(name: string, otherwise = ""): string {
  return place.value.query.get(name) ?? otherwise;
}

/** The address of a view, in the project that is shown or in the one that it is of. */
export function href(view: string, name = "", query: Record<string, string> = {}, of = ""): string {
  const search = new URLSearchParams();
  const shown = of && of !== project.value ? of : asked("project");
  if (shown) search.set("project", shown);
  for (const [k, v] of Object.entries(query)) if (v) search.set(k, v);
  const path = base + view + (name ? "/" + encodeURIComponent(name) : "");
  return search.size > 0 ? `${path}?${search}` : path;
}

export function go(to: string): void {
  history.pushState(null, "", to);
  place.value = read();
  window.scrollTo(0, 0);
  // What had the focus went with the view before: who uses the keyboard or a screen reader goes on at the new one.
  requestAnimationFrame(() => requestAnimationFrame(() => document.activeElement === document.body && document.getElementById("main")?.focus({ preventScroll: true })));
}

/** Changes values of the query where the page is; empty ones go. */
export function ask(changes: Record<string, string>): void {
  const at = new URL(location.href);
  for (const [k, v] of Object.entries(changes)) v ? at.searchParams.set(k, v) : at.searchParams.delete(k);
  history.replaceState(null, "", at);
  place.value = read();
}

/** Has links of the page followed without loading it again. */
export function listen(): void {
  addEventListener("popstate", () => (place.value = read()));
  addEventListener("click", (e) => {
    const link = (e.target as Element).closest?.("a");
    if (!link || e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return;
    if (link.origin !== location.origin || !link.pathname.startsWith(base) || link.target) return;
    if (link.hash && link.pathname === location.pathname && link.search === location.search) return; // to a place of the page, which the browser knows
    e.preventDefault();
    go(link.href);
  });
}

const firstProject = "00000000-0000-4000-8000-000000000000";

/** The project that is shown when the address names none. */
export const usualProject = signal(firstProject);

/** The project that is shown. */
export const project = computed(() => asked("project") || usualProject.value);

/** The flag that a command needs for the project that is shown. */
export const projectFlag = computed(() => (project.value === firstProject ? "" : ` --project ${word(project.value)}`));
