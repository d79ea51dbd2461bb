import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { call, Refused, type Schemas } from "../api/call";
import { counts, countsThen } from "../api/counts";
import { eventsBetween } from "../api/past";
import { Empty, Failure, Head, Labels, Part, PolicyLink, Table, Tag, Value, When } from "../parts/bits";
import { word } from "../state/word";
import { DiffLines, Rules } from "../parts/rules";
import { type Loaded, useLoad } from "../state/load";
import { allPolicies } from "../state/policies";
import { ask, asked, project, projectFlag } from "../state/route";
import { count, exact, moment } from "../state/time";
import { may } from "../state/who";
import { useKeys } from "./fleet";
import { Event, eventsAddress, type LogEvent } from "./live";

const most = 200;

/** The log between two moments, and the fleet, a policy or a node as it was at both. */
export function Time() {
  const head = useLoad(`seq ${project.value}`, async (signal) => (await counts({}, signal)).seq);
  const last = head.data ?? 0;
  const to = Math.min(sequence(asked("to")) ?? last, last);
  const from = Math.min(sequence(asked("from")) ?? Math.max(0, to - 50), to);
  return (
    <>
      <Head title="Time" about="The log between two moments: the fleet, a policy or a node as it was at both" command={thenBy(from, to)} />
      <Failure error={head.error} />
      {head.data !== undefined ? <Range from={from} to={to} last={last} /> : <div class="waiting" aria-busy={!head.error} />}
      {head.data !== undefined && <Between from={from} to={to} />}
    </>
  );
}

// sequence is a sequence of the log, of which 0 is before the first event; undefined: it is none.
const sequence = (text: string) => (/^\d{1,15}$/.test(text) ? Number(text) : undefined);

function thenBy(from: number, to: number): string {
  if (asked("policy")) return `edict policy get ${word(asked("policy"))} --at ${to}${projectFlag.value}`;
  if (asked("node")) return `edict node state ${word(asked("node"))} --at ${to}`;
  return may.readPlane.value ? `edict audit --after ${from}` : `edict events --since 24h --project ${word(project.value)}`; // the audit is of the whole plane
}

// Range is two sliders over the log. A move is shown at once, and asked about when it ends.
function Range({ from, to, last }: { from: number; to: number; last: number }) {
  const [moved, move] = useState<{ from?: number; to?: number }>({});
  const one = (name: "from" | "to", label: string, value: number) => (
    <label>{label} <output class="seq">{count(moved[name] ?? value)}</output> <Moment seq={moved[name] ?? value} />
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

// Moment is when an event was stored, or the first one from there on that the reader may see. A slider that moves asks
// once it rests.
function Moment({ seq }: { seq: number }) {
  const found = useLoad(seq > 0 ? `moment ${project.value} ${seq}` : null, async (signal) => {
    await new Promise((rested) => setTimeout(rested, 100));
    signal.throwIfAborted();
    return (await eventsBetween(eventsAddress({}), seq - 1, Number.MAX_SAFE_INTEGER, 1, signal)).events[0];
  });
  if (seq === 0) return <span class="muted">before the first event</span>;
  return <span class="muted moment">{found.data ? <>{moment(found.data.time)} (<When at={found.data.time} />)</> : " "}</span>;
}

function Between({ from, to }: { from: number; to: number }) {
  const node = asked("node");
  const policy = asked("policy");
  const policies = useLoad("policies of time", allPolicies);
  const between = useLoad(`between ${project.value} ${from} ${to} ${node} ${policy}`, (signal) => eventsBetween(eventsAddress({ node, policy }), from, to, most, signal));
  const diff = useLoad(node && !policy && may.operate.value ? `node between ${node} ${from} ${to}` : null, (signal) => call("diffNode", { path: { node }, query: { from: String(from), to: String(to) } }, signal));
  const submit = (e: SubmitEvent) => {
    e.preventDefault();
    const f = new FormData(e.currentTarget as HTMLFormElement);
    ask({ node: String(f.get("node")).trim(), policy: String(f.get("policy")) });
  };
  const events = between.data?.events;
  const happened = ( // once what stands above it is there, so that it does not move
    <Part title="Events between" note={events && `${between.data!.more ? `the first ${most}` : count(events.length)}`}>
      <Failure error={between.error} />
      {events?.length === 0 && <Empty command="edict events --since 24h">Nothing happened between these moments. Move one of them.</Empty>}
      {events ? <ol class="events" aria-label="Events">{events.map((e) => <Event key={e.seq} of={e} />)}</ol> : <div class="waiting tall" aria-busy={!between.error} />}
    </Part>
  );
  return (
    <>
      <form class="filters" onSubmit={submit} key={`${node} ${policy} ${policies.data?.length}`}>
        <label>Policy<select name="policy" defaultValue={policy}><option value="">any</option>{policies.data?.map((p) => <option key={p.id} value={p.id} selected={p.id === policy}>{p.slug}</option>)}</select></label>
        <label>Node<input name="node" defaultValue={node} spellcheck={false} /></label>
        <button>Show</button>
      </form>
      {policy ? <AsItWas policy={policy} from={from} to={to} events={between.data?.more ? undefined : events as LogEvent[] | undefined}>{happened}</AsItWas>
        : !node ? <FleetBetween from={from} to={to}>{happened}</FleetBetween>
        : may.operate.value ? <><NodeBetween of={diff} />{(diff.data || diff.error) && happened}</>
        : <><NodeAsItWas node={node} from={from} to={to} />{happened}</>}
    </>
  );
}

// AsItWas shows a policy at both moments, what is between, and which event made it so.
function AsItWas({ policy, from, to, events, children }: { policy: string; from: number; to: number; events: LogEvent[] | undefined; children: ComponentChildren }) {
  const found = useLoad(`as it was ${policy} ${from} ${to}`, async (signal) => {
    const [before, after] = await Promise.all([from, to].map((seq) => policyThen(policy, seq, signal)));
    return { before, after };
  });
  const { before, after } = found.data ?? {};
  // Of events that touch a policy some leave its head as it was, such as a staging.
  const made = (e: LogEvent) => (!after?.head ? e.type === "policy_deleted" : e.change?.policy ? e.change.policy.revision_id === after.head.id : e.type === "policy_revision_created");
  const by = found.data && events?.filter((e) => e.verdict === "applied" && e.policy_id === policy && made(e)).at(-1);
  return (
    <>
      <Part title="The policy as it was">
        <Failure error={found.error} />
        {found.data ? <div class="columns"><Side at={from} of={before} /><Side at={to} of={after} by={by} /></div> : <div class="waiting tall" aria-busy={!found.error} />}
        {before?.head && after?.head && before.head.id !== after.head.id && <Difference policy={policy} from={before.head.id} to={after.head.id} />}
        {before?.head && before.head.id === after?.head?.id && <p class="quiet">It is the same revision at both moments.</p>}
      </Part>
      {(found.data || found.error) && children}
    </>
  );
}

// policyThen is a policy after a sequence, if there was one.
async function policyThen(policy: string, seq: number, signal: AbortSignal): Promise<Schemas["Policy"] | undefined> {
  try {
    return await call("getPolicy", { path: { project: project.value, policy }, query: { at: String(seq) } }, signal);
  } catch (err) {
    if (err instanceof Refused && err.problem.code === "policy_not_found") return undefined;
    throw err;
  }
}

// FleetBetween counts the nodes at both moments, by the value of a label, and says of the last hour how many held what they must.
function FleetBetween({ from, to, children }: { from: number; to: number; children: ComponentChildren }) {
  const by = asked("by");
  const keys = useKeys(by);
  const found = useLoad(keys && (by || keys.length === 0) ? `fleet then ${project.value} ${from} ${to} ${by}` : null, (signal) =>
    Promise.all([from, to].map((seq) => countsThen(seq, { by: by || undefined, limit: 1000 }, signal))));
  const hour = useLoad(may.readPlane.value ? "hour of time" : null, (signal) => call("getFleetHistory", {}, signal));
  const [before, after] = found.data ?? [];
  return (
    <>
      <Part title="The fleet as it was" note={before && after && `${count(before.nodes)} nodes, then ${count(after.nodes)}`}>
        <Failure error={found.error} />
        {keys && keys.length > 0 && <div class="tabs wrap" role="group" aria-label="Label">{keys.map((k) => <button key={k} type="button" aria-pressed={k === by} onClick={() => ask({ by: k })}>{k}</button>)}</div>}
        {before && after && (hour.data || hour.error || !may.readPlane.value) ? (
          <Table caption="Nodes at both moments" heads={[by || "Nodes", { name: `After ${count(from)}`, number: true }, { name: `After ${count(to)}`, number: true }, { name: "Change", number: true }]}>
            <Then name="all nodes" of={[before.nodes, after.nodes]} />
            {valuesOf(before, after).map(([value, n, m]) => <Then key={value} name={<Value of={value} />} of={[n, m]} why="Not one of the values that most nodes have" />)}
            {hour.data && <Then name="of these held what they must" of={[held(hour.data, from), held(hour.data, to)]} />}
          </Table>
        ) : <div class="waiting tall" aria-busy={!found.error} />}
      </Part>
      {(found.data || found.error) && children}
    </>
  );
}

function Then({ name, of: [before, after], why = "Workers remember an hour" }: { name: ComponentChildren; of: (number | undefined)[]; why?: string }) {
  const change = before === undefined || after === undefined ? undefined : after - before;
  const cell = (n: number | undefined) => (n === undefined ? <span class="muted" title={why}>not known</span> : count(n));
  return <tr><td>{name}</td><td class="number">{cell(before)}</td><td class="number">{cell(after)}</td><td class="number">{change === undefined ? "–" : change === 0 ? <span class="muted">0</span> : `${change > 0 ? "+" : "−"}${count(Math.abs(change))}`}</td></tr>;
}

// valuesOf joins the groups of two moments, by their value. A value that one of them lacks has no nodes there, unless
// the plane left values out.
function valuesOf(before: Schemas["PastCounts"], after: Schemas["PastCounts"]): [string | null, number | undefined, number | undefined][] {
  const lacking = (of: Schemas["PastCounts"]) => ((of.values ?? 0) > (of.groups ?? []).length ? undefined : 0);
  const n = new Map((before.groups ?? []).map((g) => [g.value, g.nodes]));
  const m = new Map((after.groups ?? []).map((g) => [g.value, g.nodes]));
  return [...new Set([...m.keys(), ...n.keys()])].map((v) => [v, n.get(v) ?? lacking(before), m.get(v) ?? lacking(after)]);
}

// held is how many nodes held what they must at a sequence, as far as the last hour says.
const held = (hour: Schemas["FleetHistory"], seq: number) => hour.items.filter((s) => s.log_seq <= seq).at(-1)?.applied;

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
  const found = useLoad(`as it was ${node} ${from} ${to}`, async (signal) => {
    const last: (LogEvent | undefined)[] = [undefined, undefined]; // at each moment
    for (let after = 0; ; ) { // a node of many changes has more events than are asked for at once
      const { events, more } = await eventsBetween(eventsAddress({ node }), after, to, 2000, signal);
      for (const e of events as LogEvent[]) if (e.verdict === "applied") [from, to].forEach((seq, i) => e.seq <= seq && (last[i] = e));
      if (!more) return last;
      after = events.at(-1)!.seq;
    }
  });
  return (
    <Part title="The node as it was" note="its labels and addresses">
      <Failure error={found.error} />
      <div class="columns">{[from, to].map((seq, i) => <FactsThen key={i} at={seq} of={found.data && { last: found.data[i] }} />)}</div>
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

function Side({ at, of: p, by }: { at: number; of: Schemas["Policy"] | undefined; by?: LogEvent | undefined }) {
  const r = p?.head;
  return (
    <div class="side">
      <p><Tag is="plain">{`after ${count(at)}`}</Tag> {r ? <><code>{r.id.slice(0, 8)}</code> by {r.created_by} <span title={exact(r.created_at)}><When at={r.created_at} /></span></> : <span class="muted">not there</span>}</p>
      {by && <p class="muted">by event <span class="seq">{count(by.seq)}</span> {by.type.replaceAll("_", " ")} <When at={by.time} /></p>}
      {r && <><p class="muted mono">{r.selector.source || "any"} → {r.selector.destination || "any"}</p><Rules of={r.rules} /></>}
    </div>
  );
}

function Difference({ policy, from, to }: { policy: string; from: string; to: string }) {
  const diff = useLoad(`between ${from} ${to}`, (signal) => call("diffRevisions", { path: { project: project.value, policy }, query: { from_revision: from, to_revision: to } }, signal));
  return diff.data ? <DiffLines of={diff.data} /> : <Failure error={diff.error} />;
}
