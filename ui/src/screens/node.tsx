import { call, type Schemas } from "../api/call";
import { Fact, Failure, Head, Labels, Part, PolicyLink, Tag, When } from "../parts/bits";
import { State } from "./fleet";
import { word } from "../state/word";
import { Verdict } from "../parts/draft";
import { Explain } from "../parts/explain";
import { LongTable } from "../parts/rows";
import { useLoad } from "../state/load";
import { asked, project, projectFlag, ask } from "../state/route";
import { count } from "../state/time";
import { may } from "../state/who";

/** A node: what it must apply in deciding order, what it reported, and why a flow is decided so. */
export function Node({ name: id }: { name: string }) {
  const node = useLoad(`node ${id}`, (signal) => call("getNode", { path: { project: project.value, node: id }, query: { report: true } }, signal), 10_000);
  const n = node.data;
  const protocol = asked("protocol", "tcp");
  const ported = ["tcp", "udp", "sctp"].includes(protocol);
  const command = asked("peer") ? `edict datapath explain ${word(id)} ${asked("direction", "ingress") === "ingress" ? "--from" : "--to"} ${word(asked("peer"))} --port ${word(ported ? `${asked("port", "443")}/${protocol}` : protocol)}` : `edict node describe ${word(id)}${projectFlag.value}`;
  return (
    <>
      <Head title={id} about={n && <Labels of={n.labels} link />} command={command} />
      <Failure error={node.error} />
      {n ? <Facts of={n} /> : <div class="waiting" aria-busy={!node.error} />}
      {n && (may.operate.value ? <><Explain node={n} /><Order node={n} /></> : <p class="quiet">What it must apply is for operators of the project: <code>project:{project.value}#operator</code>.</p>)}
    </>
  );
}

function Facts({ of }: { of: Schemas["Node"] }) {
  const state = useLoad(may.operate.value ? `state ${of.id}` : null, (signal) => call("getNodeState", { path: { node: of.id } }, signal), 10_000);
  const block = state.data?.policy;
  return (
    <dl class="facts">
      <Fact name="Addresses"><span class="mono">{of.addresses.join(" ") || "none"}</span></Fact>
      {of.report && <Fact name="State"><State of={of.report} /> {of.report.reason}</Fact>}
      {of.report?.since && <Fact name="Reported">up to {of.report.version !== undefined ? count(of.report.version) : "an unnamed event"}, <When at={of.report.since} /></Fact>}
      {of.report && <Fact name="It must have">{count(of.report.desired_version)}</Fact>}
      <Fact name="Facts of log sequence">{count(of.version)}</Fact>
      {may.operate.value && <Fact name="Fingerprint of what it must apply">{state.data ? <code title={block?.fingerprint}>{block ? block.fingerprint.slice(0, 12) : "no policy matches it"}</code> : "…"}</Fact>}
    </dl>
  );
}

function Order({ node }: { node: Schemas["Node"] }) {
  const way = asked("way", "ingress");
  const list = useLoad(`order ${node.id} ${node.version}`, (signal) => call("listNodePolicies", { path: { node: node.id } }, signal), 10_000);
  const lines = (list.data?.lines ?? []).filter((l) => l.direction === way);
  const last = list.data?.defaults.find((d) => d.direction === way);
  return (
    <Part title="Rules in the order in which they are tried" note={list.data && `${count(lines.length)} for ${way}`}>
      <div class="tabs" role="group" aria-label="Direction">
        {["ingress", "egress"].map((d) => <button key={d} type="button" aria-pressed={d === way} onClick={() => ask({ way: d })}>{d}</button>)}
      </div>
      <Failure error={list.error} />
      {list.data?.refused && <p class="failure">It keeps an older table: {list.data.refused.detail} <code>{list.data.refused.code}</code></p>}
      {list.data && <Tried lines={lines} way={way} last={last} />}
    </Part>
  );
}

function Tried({ lines, way, last }: { lines: Schemas["PlacedRule"][]; way: string; last: { verdict: string } | undefined }) {
  const row = (i: number, props: object) => {
    const l = lines[i];
    if (!l) return <tr key="last" {...props} class="last"><td /><td>otherwise <Verdict is={last!.verdict} /></td><td class="muted" colSpan={2}><Tag is="plain">default</Tag></td></tr>;
    return (
      <tr key={`${l.policy} ${l.index}`} {...props}>
        <td class="number muted">{i + 1}</td>
        <td title={l.text}><span class={`action ${l.text.split(" ")[0]}`}>{l.text}</span></td>
        <td><PolicyLink id={l.policy} slug={l.slug} row /> <span class="muted">rule {l.index + 1}</span></td>
        <td class="muted">{l.tier} {l.priority}</td>
      </tr>
    );
  };
  return <LongTable caption={`Rules for ${way}`} of="of-rules" heads={["#", "Rule", "Policy", "Place"]} n={lines.length + (last ? 1 : 0)} row={row} />;
}
