import { useState } from "preact/hooks";
import { call, type Schemas } from "../api/call";
import { eventsBetween } from "../api/past";
import { Failure, Head, Labels, Part, PolicyLink, Table, Tag, When } from "../parts/bits";
import { word } from "../parts/command";
import { DiffLines, Rules } from "../parts/rules";
import { type Loaded, useLoad } from "../state/load";
import { allPolicies } from "../state/policies";
import { ask, asked, project } from "../state/route";
import { count, exact } from "../state/time";
import { may } from "../state/who";
import { Event, eventsAddress, type LogEvent } from "./live";

const most = 200;

/** The log between two moments, and a policy as it was at both. */
export function Time() {
  const head = useLoad(`seq ${project.value}`, async (signal) =>
    (may.readPlane.value ? await call("countNodes", {}, signal) : await call("countProjectNodes", { path: { project: project.value } }, signal)).seq);
  const last = head.data ?? 0;
  const to = Math.min(Number(asked("to")) || last, last);
  const from = Math.min(Number(asked("from")) || Math.max(0, to - 50), to);
  return (
    <>
      <Head title="Time" about="The log between two moments" command={asked("node") ? `edict node state ${word(asked("node"))} --at ${to}` : `edict audit --after ${from}`} />
      <Failure error={head.error} />
      {head.data !== undefined ? <Range from={from} to={to} last={last} /> : <div class="waiting" aria-busy={!head.error} />}
      {head.data !== undefined && <Between from={from} to={to} />}
    </>
  );
}

// Range is two sliders over the log. A move is shown at once, and asked about when it ends.
function Range({ from, to, last }: { from: number; to: number; last: number }) {
  const [moved, move] = useState<{ from?: number; to?: number }>({});
  const one = (name: "from" | "to", label: string, value: number) => (
    <label>{label} <output class="seq">{count(moved[name] ?? value)}</output>
      <input type="range" min={0} max={last} value={moved[name] ?? value}
        onInput={(e) => move({ [name]: Number(e.currentTarget.value) })}
        onChange={(e) => {
          const at = Number(e.currentTarget.value);
          move({});
          ask(name === "from" ? { from: String(at), to: String(Math.max(at, to)) } : { to: String(at), from: String(Math.min(from, at)) });
        }} />
    </label>
  );
  return <div class="range">{one("from", "After sequence", from)}{one("to", "Up to sequence", to)}</div>;
}

function Between({ from, to }: { from: number; to: number }) {
  const node = asked("node");
  const policy = asked("policy");
  const policies = useLoad("policies of time", allPolicies);
  const between = useLoad(`between ${project.value} ${from} ${to} ${node} ${policy}`, (signal) => eventsBetween(eventsAddress({ node, policy }), from, to, most, signal));
  const diff = useLoad(node && !policy && may.operate.value ? `node between ${node} ${from} ${to}` : null, (signal) => call("diffNode", { path: { node }, query: { from: String(from), to: String(to) } }, signal));
  const waits = node && !policy && may.operate.value && !diff.data && !diff.error; // nothing below is to move
  const submit = (e: SubmitEvent) => {
    e.preventDefault();
    const f = new FormData(e.currentTarget as HTMLFormElement);
    ask({ node: String(f.get("node")).trim(), policy: String(f.get("policy")) });
  };
  const events = between.data?.events;
  return (
    <>
      <form class="filters" onSubmit={submit} key={`${node} ${policy} ${policies.data?.length}`}>
        <label>Policy<select name="policy" defaultValue={policy}><option value="">any</option>{policies.data?.map((p) => <option key={p.id} value={p.id} selected={p.id === policy}>{p.slug}</option>)}</select></label>
        <label>Node<input name="node" defaultValue={node} spellcheck={false} /></label>
        <button>Show</button>
      </form>
      {policy && <AsItWas policy={policy} from={from} to={to} />}
      {node && !policy && (may.operate.value ? <NodeBetween of={diff} /> : <NodeAsItWas node={node} from={from} to={to} />)}
      {!waits && <Part title="Events between" note={events && `${between.data!.more ? `the first ${most}` : count(events.length)}`}>
        <Failure error={between.error} />
        {events?.length === 0 && <p class="quiet">Nothing happened between these moments.</p>}
        {events ? <ol class="events" aria-label="Events">{events.map((e) => <Event key={e.seq} of={e} />)}</ol> : <div class="waiting tall" aria-busy={!between.error} />}
      </Part>}
    </>
  );
}

// AsItWas shows a policy at both moments, and what is between.
function AsItWas({ policy, from, to }: { policy: string; from: number; to: number }) {
  const found = useLoad(`as it was ${policy} ${from} ${to}`, async (signal) => {
    const { items } = await call("listRevisions", { path: { project: project.value, policy }, query: { limit: 200 } }, signal);
    const { events } = await eventsBetween(eventsAddress({ policy }), 0, to, 2000, signal);
    const p = await call("getPolicy", { path: { project: project.value, policy } }, signal);
    const chain = lineage(items, p.head_revision_id);
    return { before: inForce(chain, events, from), after: inForce(chain, events, to) };
  });
  const f = found.data;
  return (
    <Part title="The policy as it was">
      <Failure error={found.error} />
      <div class="columns">
        <Side at={from} of={f?.before} />
        <Side at={to} of={f?.after} />
      </div>
      {f?.before && f.after && f.before.id !== f.after.id && <Difference policy={policy} from={f.before.id} to={f.after.id} />}
      {f?.before && f.after && f.before.id === f.after.id && <p class="quiet">It is the same revision at both moments.</p>}
    </Part>
  );
}

// NodeBetween shows a node at both moments, and which rulesets it got or lost by which event.
function NodeBetween({ of: diff }: { of: Loaded<Schemas["NodeDiff"]> }) {
  const d = diff.data;
  return (
    <Part title="The node as it was" note={d && `${count(d.rows.length)} rulesets differ`}>
      <Failure error={diff.error} />
      {d ? <div class="columns">{[d.from, d.to].map((n) => <NodeThen key={n.seq} of={n} since={n === d.to ? d.event : undefined} />)}</div> : <div class="waiting" aria-busy={!diff.error} />}
      {d?.rows.length === 0 && <p class="quiet">It had the same rules at both moments.</p>}
      {d && d.rows.length > 0 && (
        <Table caption="Rulesets that differ" heads={["Policy", "Change", "Before", "After", "By the event"]}>
          {d.rows.map((r) => (
            <tr key={r.policy_id}>
              <td><PolicyLink id={r.policy_id} slug={r.slug ?? r.policy_id.slice(0, 8)} row /></td>
              <td><Tag is={changes[r.change]}>{r.change}</Tag></td>
              <td>{r.before && <code title={r.before.fingerprint}>{r.before.revision_id.slice(0, 8)}</code>}</td>
              <td>{r.after && <code title={r.after.fingerprint}>{r.after.revision_id.slice(0, 8)}</code>}</td>
              <td>{r.event ? <><span class="seq">{count(r.event.seq)}</span> {r.event.type} <When at={r.event.time} /></> : <span class="muted">not known any more</span>}</td>
            </tr>
          ))}
        </Table>
      )}
    </Part>
  );
}

const changes = { added: "good", removed: "bad", changed: "late" } as const;

function NodeThen({ of, since }: { of: Schemas["NodeAt"]; since: Schemas["ChangeEvent"] | undefined }) {
  return (
    <div class="side">
      <p><Tag is="plain">{`after ${count(of.seq)}`}</Tag> {!of.facts && <span class="muted">not there</span>} {since && <span class="muted">since {count(since.seq)}</span>}</p>
      {of.facts && <><Labels of={of.facts.labels ?? {}} /><p class="mono">{(of.facts.addresses ?? []).join(" ")}</p></>}
    </div>
  );
}

// NodeAsItWas shows a node's facts at both moments to who may not read its rules, as its events say.
function NodeAsItWas({ node, from, to }: { node: string; from: number; to: number }) {
  const found = useLoad(`as it was ${node} ${from} ${to}`, (signal) => eventsBetween(eventsAddress({ node }), 0, to, 2000, signal));
  const at = (seq: number) => found.data && { last: (found.data.events as LogEvent[]).filter((e) => e.seq <= seq && e.verdict === "applied").at(-1) };
  return (
    <Part title="The node as it was" note="its labels and addresses">
      <Failure error={found.error} />
      <div class="columns">{[from, to].map((seq) => <FactsThen key={seq} at={seq} of={at(seq)} />)}</div>
    </Part>
  );
}

function FactsThen({ at, of }: { at: number; of: { last: LogEvent | undefined } | undefined }) {
  const n = of?.last?.change?.node;
  return (
    <div class="side">
      <p><Tag is="plain">{`after ${count(at)}`}</Tag> {of && (!of.last || n?.removed) && <span class="muted">not there</span>} {of?.last && <span class="muted">since {count(of.last.seq)}</span>}</p>
      {n && !n.removed && <><Labels of={n.labels ?? {}} /><p class="mono">{(n.addresses ?? []).join(" ")}</p></>}
      {of?.last && !n && <p class="muted">The plane does not keep what this event changed.</p>}
    </div>
  );
}

// lineage are the revisions that were the head, oldest first.
function lineage(all: Schemas["Revision"][], head: string): Schemas["Revision"][] {
  const by = new Map(all.map((r) => [r.id, r]));
  const chain: Schemas["Revision"][] = [];
  for (let r = by.get(head); r; r = r.parent_id ? by.get(r.parent_id) : undefined) chain.unshift(r);
  return chain;
}

// inForce is the head after a sequence: what the policy's last event up to there made of it, or, where the plane does not
// know that any more, the newest revision that was made before that event.
function inForce(chain: Schemas["Revision"][], events: LogEvent[], seq: number): Schemas["Revision"] | undefined {
  const before = events.filter((e) => e.seq <= seq && e.verdict === "applied");
  const named = before.filter((e) => e.change?.policy).at(-1)?.change?.policy?.revision_id;
  const last = before.at(-1);
  return chain.find((r) => r.id === named) ?? (last && chain.filter((r) => Date.parse(r.created_at) <= Date.parse(last.time)).at(-1));
}

function Side({ at, of }: { at: number; of: Schemas["Revision"] | undefined }) {
  return (
    <div class="side">
      <p><Tag is="plain">{`after ${count(at)}`}</Tag> {of ? <><code>{of.id.slice(0, 8)}</code> by {of.created_by} <span title={exact(of.created_at)}><When at={of.created_at} /></span></> : <span class="muted">not there yet</span>}</p>
      {of && <><p class="muted mono">{of.selector.source || "any"} → {of.selector.destination || "any"}</p><Rules of={of.rules} /></>}
    </div>
  );
}

function Difference({ policy, from, to }: { policy: string; from: string; to: string }) {
  const diff = useLoad(`between ${from} ${to}`, (signal) => call("diffRevisions", { path: { project: project.value, policy }, query: { from_revision: from, to_revision: to } }, signal));
  return diff.data ? <DiffLines of={diff.data} /> : <Failure error={diff.error} />;
}
