import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Schemas } from "../api/call";

type Rule = Schemas["Rule"];

/** A rule as one line. */
export function ruleText(r: Rule): string {
  const ports = r.ports ? (r.ports.from === r.ports.to ? ` ${r.ports.from}` : ` ${r.ports.from}-${r.ports.to}`) : "";
  const more = [
    r.direction && `at ${r.direction}`, r.proxy_port && `by proxy ${r.proxy_port}`, r.listener_priority && `listener ${r.listener_priority}`, r.auth && `auth ${r.auth}`,
  ].filter(Boolean);
  const side = (cidr?: string, selector?: string) => cidr ?? (selector ? `{${selector}}` : "any");
  return `${r.action} ${r.protocol}${ports} from ${side(r.source_cidr, r.source_selector)} to ${side(r.destination_cidr, r.destination_selector)}${more.length ? " " + more.join(" ") : ""}`;
}

/** A line of rules, marked as added or taken away. */
export function Line({ sign, children }: { sign: "+" | "-" | " "; children: ComponentChildren }) {
  return <li class={sign === "+" ? "added" : sign === "-" ? "removed" : ""}><span class="sign" aria-hidden="true">{sign}</span><span class="unseen">{sign === "+" ? "added: " : sign === "-" ? "removed: " : ""}</span>{children}</li>;
}

/** Whether a line has all words of a text. */
export function hasWords(line: string, text: string): boolean {
  const small = line.toLowerCase();
  return text.toLowerCase().split(/\s+/).filter(Boolean).every((w) => small.includes(w));
}

/** Rules as they were written; those that have the words that were looked for are marked. */
export function Rules({ of, found = "" }: { of: Rule[]; found?: string }) {
  const list = useRef<HTMLOListElement>(null);
  useEffect(() => list.current?.querySelector(".found")?.scrollIntoView({ block: "center" }), [found]);
  const lines = of.map(ruleText);
  return (
    <ol class="rules" ref={list}>
      {of.map((r, i) => <li key={i} class={found && hasWords(lines[i]!, found) ? "found" : ""}><span class={`action ${r.action}`}>{lines[i]}</span></li>)}
    </ol>
  );
}

/** What is between two revisions. */
export function DiffLines({ of }: { of: Schemas["Diff"] }) {
  const none = of.added.length + of.removed.length + of.modified.length === 0 && !of.order && !of.reordered;
  if (none) return <p class="quiet">The rules are the same.</p>;
  return (
    <ul class="diff">
      {of.removed.map((r, i) => <Line key={`r${i}`} sign="-">{ruleText(r)}</Line>)}
      {of.modified.flatMap((m, i) => [<Line key={`mb${i}`} sign="-">{ruleText(m.before)}</Line>, <Line key={`ma${i}`} sign="+">{ruleText(m.after)}</Line>])}
      {of.added.map((r, i) => <Line key={`a${i}`} sign="+">{ruleText(r)}</Line>)}
      {of.order && <><Line sign="-">{orderText(of.order.before)}</Line><Line sign="+">{orderText(of.order.after)}</Line></>}
      {of.reordered && <Line sign=" ">The rules decide in another order.</Line>}
    </ul>
  );
}

function orderText(o: Schemas["Order"]): string {
  return `tier ${o.tier ?? "none"}, priority ${o.priority ?? "none"}, default deny ${o.default_deny ?? "as usual"}, mode ${o.mode ?? "enforce"}`;
}
