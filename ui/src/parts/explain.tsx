import { call, type Schemas } from "../api/call";
import { useLoad } from "../state/load";
import { ask, asked, project } from "../state/route";
import { count } from "../state/time";
import { Failure, Options, Part, PolicyLink, Table, When } from "./bits";
import { Verdict } from "./draft";

/** Why a flow of a node is decided as it is. */
export function Explain({ node }: { node: Schemas["Node"] }) {
  const peer = asked("peer");
  const direction = asked("direction", "ingress") as "ingress" | "egress";
  const protocol = asked("protocol", "tcp") as "tcp";
  const port = asked("port", "443");
  const ported = ["tcp", "udp", "sctp"].includes(protocol);
  const verdict = useLoad(peer ? `explain ${node.id} ${direction} ${peer} ${protocol} ${port}` : null, (signal) =>
    call("explainFlow", { path: { node: node.id }, query: { direction, peer, protocol, ...(ported && { port: Number(port) }) } }, signal));
  const submit = (e: SubmitEvent) => {
    e.preventDefault();
    const f = new FormData(e.currentTarget as HTMLFormElement);
    ask(Object.fromEntries(["direction", "peer", "protocol", "port"].map((k) => [k, String(f.get(k) ?? "").trim()])));
  };
  return (
    <Part title="Why?" note="pick the other end of a flow">
      <form class="filters" onSubmit={submit}>
        <label>Direction<select name="direction"><Options of={[["ingress", "ingress, from"], ["egress", "egress, to"]]} chosen={direction} /></select></label>
        <label class="wide">Peer, a node or an address<input name="peer" required defaultValue={peer} placeholder="web-1 or 10.16.0.1" spellcheck={false} /></label>
        <label>Protocol<select name="protocol"><Options of={["tcp", "udp", "sctp", "icmp"]} chosen={protocol} /></select></label>
        <label>Port<input name="port" type="number" required min={1} max={65535} defaultValue={port} /></label>
        <button class="primary">Explain</button>
      </form>
      <Failure error={verdict.error} />
      {verdict.data ? <Answer of={verdict.data} /> : peer && !verdict.error && <div class="waiting answered" aria-busy="true" />}
    </Part>
  );
}

function Answer({ of }: { of: Schemas["FlowVerdict"] }) {
  const before = of.rule ? of.considered.slice(0, -1) : of.considered;
  return (
    <div class="answer" aria-live="polite">
      <p class="figure"><Verdict is={of.verdict} /> {of.rule ? <>by <b>{of.rule.text}</b></> : of.reason}</p>
      {of.rule && <Author of={of.rule} />}
      {of.refused && <p class="failure">An older table answered: {of.refused.detail} <code>{of.refused.code}</code></p>}
      {before.length > 0 && (
        <details>
          <summary>Why not one of the {count(before.length)} rules before it</summary>
          <Table caption="Rules that were asked before" heads={[{ name: "#", number: true }, "Rule", "Policy", "Why it did not decide"]}>
            {before.map((c, i) => <tr key={i} class={c.applies ? "" : "faint"}><td class="number muted">{i + 1}</td><td>{c.text}</td><td><PolicyLink id={c.policy} slug={c.slug} row /></td><td>{c.reason}</td></tr>)}
          </Table>
        </details>
      )}
    </div>
  );
}

function Author({ of }: { of: Schemas["PlacedRule"] }) {
  const r = useLoad(`revision ${of.revision}`, (signal) => call("getRevision", { path: { project: project.value, policy: of.policy, revision: of.revision } }, signal));
  return (
    <p class="author">
      Rule {of.index + 1} of <PolicyLink id={of.policy} slug={of.slug} />, {of.tier} {of.priority}
      {r.data && <>, revision <code>{of.revision.slice(0, 8)}</code>, written by <b>{r.data.created_by}</b> <When at={r.data.created_at} /></>}
    </p>
  );
}
