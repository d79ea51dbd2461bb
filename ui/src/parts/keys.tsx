import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { go, href } from "../state/route";
import { views } from "./frame";

const shown = signal(false);
let before = 0; // when g was pressed

const rows = () => [...document.querySelectorAll<HTMLElement>("main [data-row]")];

function move(by: number): void {
  const all = rows();
  if (all.length === 0) return;
  const at = all.indexOf(document.activeElement as HTMLElement);
  const seen = all.findIndex((r) => r.getBoundingClientRect().top > 48); // below the page's head
  const next = all[at < 0 ? Math.max(0, seen) : Math.max(0, Math.min(all.length - 1, at + by))]!;
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}

/** Has the page answer its keys. */
export function listenToKeys(): void {
  addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || document.querySelector("dialog[open]")) return; // what is behind a dialogue has no keys
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test((e.target as Element).tagName);
    if (e.key === "Escape" && typing) (e.target as HTMLElement).blur();
    if (typing) return;
    const view = Date.now() - before < 1200 ? views.find((v) => v.key === e.key) : undefined;
    before = e.key === "g" ? Date.now() : 0;
    if (view) go(href(view.name));
    else if (e.key === "/") document.querySelector<HTMLElement>("#search")?.focus();
    else if (e.key === "?") shown.value = true;
    else if (e.key === "j") move(1);
    else if (e.key === "k") move(-1);
    else if (e.key === "c") document.querySelector<HTMLElement>("main [data-copy]")?.click();
    else return;
    e.preventDefault();
  });
}

const list: [string, string][] = [
  ["/", "Search policies, rules and nodes"],
  ["j  k", "Next and previous row"],
  ["Enter", "Open the row"],
  ["c", "Copy the view as a command"],
  ["Esc", "Leave a field or a dialogue"],
  ["?", "Show these keys"],
];

/** What each key does. */
export function Keys() {
  const dialog = useRef<HTMLDialogElement>(null);
  const open = shown.value;
  useEffect(() => {
    if (open) dialog.current?.showModal();
  }, [open]);
  return (
    <dialog ref={dialog} class="keys" aria-label="Keys" onClose={() => (shown.value = false)}>
      <h2>Keys</h2>
      <dl>
        {list.map(([key, what]) => <div key={key}><dt><kbd>{key}</kbd></dt><dd>{what}</dd></div>)}
        {views.map((v) => <div key={v.name}><dt><kbd>g {v.key}</kbd></dt><dd>{v.title}</dd></div>)}
      </dl>
      <form method="dialog"><button>Close</button></form>
    </dialog>
  );
}
