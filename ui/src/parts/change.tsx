import type { Schemas } from "../api/call";
import { count } from "../state/time";
import { Labels, Tag } from "./bits";
import { DiffLines } from "./rules";

/** What an event changed, where the plane still knows that. */
export interface Change {
  policy?: { revision_id: string; parent_revision_id?: string | null; selectors?: { before: Schemas["Selector"] | null; after: Schemas["Selector"] }; rules: Schemas["Diff"] };
  node?: { created?: boolean; removed?: boolean; labels_before?: Record<string, string>; labels?: Record<string, string>; addresses?: string[] };
}

/** An event with what it changed. */
export type Changing = Schemas["LogEvent"] & { change?: Change; nodes?: number };

/** What an event changed, and how many nodes it was sent to. */
export function Changed({ of: e }: { of: Changing }) {
  const { policy, node } = e.change ?? {};
  return (
    <>
      {e.nodes !== undefined && <div><dt>Sent to</dt><dd>{count(e.nodes)} nodes</dd></div>}
      {policy && (
        <div><dt>It changed</dt><dd class="grown">
          {policy.selectors && <p class="mono">{policy.selectors.before && <del>{sides(policy.selectors.before)}</del>} {sides(policy.selectors.after)}</p>}
          <DiffLines of={policy.rules} />
        </dd></div>
      )}
      {node && (
        <div><dt>It changed</dt><dd>
          {node.created && <Tag is="accent">new</Tag>} {node.removed && <Tag is="bad">removed</Tag>}
          <LabelChange before={node.labels_before ?? {}} after={node.labels ?? {}} />
        </dd></div>
      )}
    </>
  );
}

const sides = (s: Schemas["Selector"]) => `${s.source || "any"} → ${s.destination || "any"}`;

// LabelChange shows the labels that came, went and stayed.
function LabelChange({ before, after }: { before: Record<string, string>; after: Record<string, string> }) {
  const gone = Object.fromEntries(Object.entries(before).filter(([k, v]) => after[k] !== v));
  const come = Object.fromEntries(Object.entries(after).filter(([k, v]) => before[k] !== v));
  const same = Object.fromEntries(Object.entries(after).filter(([k, v]) => before[k] === v));
  return <><del><Labels of={gone} /></del> <ins><Labels of={come} /></ins> <Labels of={same} /></>;
}
