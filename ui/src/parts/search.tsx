import { useEffect, useRef, useState } from "preact/hooks";
import { call, passes, type Schemas } from "../api/call";
import { go, href, project } from "../state/route";
import { allPolicies } from "../state/policies";
import { hasWords, ruleText } from "./rules";
import { may } from "../state/who";

interface Hit {
  kind: "policy" | "rule" | "node" | "nodes";
  text: string;
  detail: string;
  to: string;
}

// What the reader may not ask finds nothing; a plane that does not answer is another matter.
const orNone = <T,>(none: T) => (err: unknown) => {
  if (passes(err)) throw err;
  return none;
};

async function find(text: string): Promise<Hit[]> {
  const hits: Hit[] = [];
  const small = text.toLowerCase();
  const policies = await allPolicies().catch(orNone<Schemas["Policy"][]>([]));
  for (const p of policies) {
    if (hits.length < 8 && (p.slug.includes(small) || p.display_name.toLowerCase().includes(small) || p.id === small)) {
      hits.push({ kind: "policy", text: p.slug, detail: p.display_name, to: href("policies", p.id) });
    }
  }
  hits.push(...(await rulesWith(small)));
  if (!may.seeProject.value) return hits;
  if (/[=!,]/.test(text)) return [...hits, { kind: "nodes", text, detail: "nodes with these labels", to: href("nodes", "", { labels: text }) }];
  if (/^[a-z0-9-]{1,63}$/.test(small)) {
    const nodes = await call("listNodes", { path: { project: project.value }, query: { prefix: small, limit: 8 } }).catch(orNone(null));
    const found = (nodes?.items ?? []).map((n): Hit => ({ kind: "node", text: n.id, detail: Object.entries(n.labels).map(([k, v]) => `${k}=${v}`).join(" "), to: href("nodes", n.id) }));
    const whole = found.findIndex((h) => h.text === small);
    if (whole >= 0) hits.unshift(...found.splice(whole, 1));
    hits.push(...found);
  }
  return hits;
}

// rulesWith are rules that have all words of a text, one of each policy.
async function rulesWith(text: string): Promise<Hit[]> {
  if (text.trim().length < 2) return [];
  const found = await call("listPolicies", { path: { project: project.value }, query: { rule: text, limit: 6 } }).catch(orNone(null));
  return (found?.items ?? []).map((p) => {
    const lines = (p.head?.rules ?? []).map(ruleText);
    return { kind: "rule", text: lines.find((l) => hasWords(l, text)) ?? lines[0] ?? "", detail: p.slug, to: href("policies", p.id, { rule: text }) };
  });
}

/** Finds policies by a part of their name, rules by their words, nodes by how their id begins or by their labels. */
export function Search() {
  const [text, setText] = useState("");
  const [found, setFound] = useState<{ of: string; hits: Hit[]; error?: Error }>({ of: "", hits: [] });
  const hits = found.of === text ? found.hits : []; // what was found of another text is not what Enter takes
  const wanted = useRef(""); // the text that Enter came after, before anything was found of it
  const [at, setAt] = useState(0);
  const [open, setOpen] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    let stale = false;
    const timer = setTimeout(async () => {
      const hits = text ? await find(text).catch((err: Error) => err) : [];
      if (stale) return;
      setFound(hits instanceof Error ? { of: text, hits: [], error: hits } : { of: text, hits });
      setAt(0);
      if (text && wanted.current === text && !(hits instanceof Error)) take(hits[0]);
      wanted.current = "";
    }, 120);
    return () => {
      stale = true;
      clearTimeout(timer);
    };
  }, [text]);
  const take = (hit: Hit | undefined) => {
    if (!hit) return;
    setText("");
    setOpen(false);
    field.current?.blur();
    go(hit.to);
  };
  const key = (e: KeyboardEvent) => {
    if (e.key === "ArrowDown") setAt(Math.min(at + 1, hits.length - 1));
    else if (e.key === "ArrowUp") setAt(Math.max(at - 1, 0));
    else if (e.key === "Enter") found.of === text ? take(hits[at]) : (wanted.current = text);
    else if (e.key === "Escape") return setText("");
    else return;
    e.preventDefault();
  };
  const listed = open && text !== "";
  return (
    <div class="search" role="search">
      <input
        id="search" ref={field} type="text" autocomplete="off" spellcheck={false} placeholder="Policy, rule, node, or labels such as env=prod"
        role="combobox" aria-label="Search policies, rules and nodes" aria-expanded={listed} aria-controls="hits" aria-activedescendant={listed && hits[at] ? `hit-${at}` : undefined}
        value={text} onInput={(e) => setText(e.currentTarget.value)} onKeyDown={key} onFocus={() => setOpen(true)} onBlur={() => setTimeout(() => document.activeElement !== field.current && setOpen(false), 150)}
      />
      <kbd aria-hidden="true">/</kbd>
      <div id="hits" class="hits" role="listbox" aria-label="Found" hidden={!listed}>
        {hits.map((h, i) => (
          <div key={h.kind + h.to} id={`hit-${i}`} role="option" aria-selected={i === at} onMouseDown={() => take(h)}>
            <span class="kind">{h.kind}</span> <b>{h.text}</b> <span class="muted">{h.detail}</span>
          </div>
        ))}
        {found.of !== text && <div role="option" aria-selected={false} aria-disabled="true" class="muted">Looking…</div>}
        {found.of === text && found.error && <div role="option" aria-selected={false} aria-disabled="true" class="muted">Not looked for: {found.error.message}</div>}
        {found.of === text && !found.error && hits.length === 0 && <div role="option" aria-selected={false} aria-disabled="true" class="muted">Nothing found. Rules are found by words such as tcp 5432, nodes by how their id begins, or by labels such as role=db.</div>}
      </div>
    </div>
  );
}
