import type { ComponentChildren } from "preact";
import { Refused } from "../api/call";
import { ago, exact, now } from "../state/time";
import { href } from "../state/route";
import { Command } from "./command";

/** How long ago something was; the whole moment on the hover. */
export function When({ at }: { at: string | null | undefined }) {
  if (!at) return <span class="muted">unknown</span>;
  return <time dateTime={at} title={exact(at)}>{ago(at, now.value)}</time>;
}

/** The head of a view: what it is, what it is of, and how to ask the same on the command line. */
export function Head({ title, about, command, children }: { title: ComponentChildren; about?: ComponentChildren; command: string; children?: ComponentChildren }) {
  return (
    <div class="head">
      <div class="head-text">
        <h1>{title}</h1>
        {about && <p class="about">{about}</p>}
      </div>
      <div class="head-side">{children}<Command text={command} /></div>
    </div>
  );
}

/** Why something cannot be shown. */
export function Failure({ error }: { error: Error | undefined }) {
  if (!error) return null;
  if (!(error instanceof Refused)) return <p class="failure" role="alert">{error.message}</p>;
  const p = error.problem;
  return (
    <div class="failure" role="alert">
      <p>{p.detail || p.title} <code>{p.code}</code></p>
      {p.errors && p.errors.length > 0 && <ul>{p.errors.map((f, i) => <li key={i}>{f.pointer && <code>{f.pointer}</code>} {f.detail}</li>)}</ul>}
    </div>
  );
}

/** Nothing is there yet: what to type next. */
export function Empty({ children, command }: { children: ComponentChildren; command?: string }) {
  return <div class="empty"><p>{children}</p>{command && <Command text={command} />}</div>;
}

/** A part of a view. */
export function Part({ title, note, children, id }: { title: string; note?: ComponentChildren; children: ComponentChildren; id?: string }) {
  return (
    <section class="part" id={id}>
      <div class="part-head"><h2>{title}</h2>{note && <span class="muted">{note}</span>}</div>
      {children}
    </section>
  );
}

/** A word about a state, with its colour. */
export function Tag({ is, children }: { is: "good" | "late" | "bad" | "plain" | "accent"; children: ComponentChildren }) {
  return <span class={`tag ${is}`}>{children}</span>;
}

/** A node, as a link to it; of is its project, where that may be another than the one that is shown. */
export function NodeLink({ id, of, row }: { id: string; of?: string | undefined; row?: boolean }) {
  return <a class="id" href={href("nodes", id, {}, of)} data-row={row || undefined}>{id}</a>;
}

/** A policy, as a link to it; of is as of NodeLink. */
export function PolicyLink({ id, slug, of, row }: { id: string; slug?: string | undefined; of?: string | undefined; row?: boolean }) {
  return <a class="id" href={href("policies", id, {}, of)} data-row={row || undefined}>{slug || id}</a>;
}

/** A label's value, which may be empty; a node that has no such label has none. */
export function Value({ of }: { of: string | null }) {
  return of ? <>{of}</> : <span class="muted">{of === null ? "without" : "(empty)"}</span>;
}

/** Labels, a chip each. */
export function Labels({ of, link }: { of: Record<string, string>; link?: boolean }) {
  return (
    <span class="labels">
      {Object.entries(of).map(([k, v]) => link
        ? <a key={k} class="label" href={href("nodes", "", { labels: `${k}=${v}` })}>{k}={v}</a>
        : <span key={k} class="label">{k}={v}</span>)}
    </span>
  );
}

/** A table that scrolls on its own where it is too wide. */
export function Table({ caption, heads, children }: { caption: string; heads: (string | { name: string; number?: boolean })[]; children: ComponentChildren }) {
  return (
    <div class="scroll" role="region" aria-label={caption} tabIndex={0}>
      <table>
        <caption class="unseen">{caption}</caption>
        <thead><tr>{heads.map((h) => typeof h === "string" ? <th key={h} scope="col">{h}</th> : <th key={h.name} scope="col" class={h.number ? "number" : ""}>{h.name}</th>)}</tr></thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

/** The choices of a field of a form, each a value or a value with its text; a select shows the one that is chosen by these alone. */
export function Options({ of, chosen }: { of: readonly (string | readonly [string, string])[]; chosen: string }) {
  return <>{of.map((o) => typeof o === "string" ? [o, o] as const : o).map(([value, text]) => <option key={value} value={value} selected={value === chosen}>{text}</option>)}</>;
}

/** Something that is known by its name, in a row of such. */
export function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return <div class="fact"><dt>{name}</dt><dd>{children}</dd></div>;
}
