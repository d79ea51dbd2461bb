import { useState } from "preact/hooks";
import { call, everyItem, type Schemas } from "../api/call";
import { Empty, Failure, Head, Part, Table, Tag, When } from "../parts/bits";
import { Trial } from "../parts/trial";
import { useLoad } from "../state/load";
import { ask, asked } from "../state/route";
import { count } from "../state/time";
import { may } from "../state/who";
import { word } from "../state/word";

const outcomes = ["approved", "modified", "rejected", "conflict", "error", "timeout"];

/** What admission policies decide, and what they would say of a request. */
export function Admission() {
  const policies = useLoad("admission", everyPolicy, 10_000);
  const items = policies.data ?? [];
  return (
    <>
      <Head title="Admission" about="Rego policies that requests pass" command={asked("decided") ? `edict admission decisions --policy ${word(asked("decided"))}` : "edict admission list"} />
      <Failure error={policies.error} />
      {policies.data?.length === 0 && <Empty command="edict admission apply -f no-telnet.rego">There is no admission policy yet: every request passes.</Empty>}
      {policies.data ? items.length > 0 && <List of={items} /> : <div class="waiting tall" aria-busy={!policies.error} />}
      {(policies.data || policies.error) && <Decisions policies={items} />}
    </>
  );
}

const everyPolicy = (signal: AbortSignal) => everyItem((cursor) => call("listAdmissionPolicies", { query: { limit: 200, cursor } }, signal));

function List({ of }: { of: Schemas["AdmissionPolicy"][] }) {
  return (
    <Table caption="Admission policies" heads={["Policy", "Level", "Service type", { name: "Priority", number: true }, "State", "Changed"]}>
      {of.map((p) => (
        <tr key={p.id}>
          <td><a class="id" data-row href="#decisions" onClick={(e) => { e.preventDefault(); ask({ decided: p.id }); }} title={p.description ?? ""}>{p.name}</a></td>
          <td>{p.policy_type} <span class="muted">{p.tenant_id || p.user_id}</span></td>
          <td>{p.service_type || <span class="muted">any</span>}</td>
          <td class="number">{count(p.priority)}</td>
          <td>{!p.enabled ? <Tag is="plain">off</Tag> : p.mode === "shadow" ? <Tag is="accent">shadow</Tag> : <Tag is="good">enforced</Tag>}</td>
          <td><When at={p.updated_at} /></td>
        </tr>
      ))}
    </Table>
  );
}

function Decisions({ policies }: { policies: Schemas["AdmissionPolicy"][] }) {
  const policy = asked("decided");
  const outcome = asked("outcome");
  const decisions = useLoad(`decisions ${policy} ${outcome}`, (signal) => call("listDecisions", { query: { limit: 30, policy: policy || undefined, outcome: (outcome || undefined) as never }, verbatim: true }, signal), 5000);
  const items = decisions.data?.items ?? [];
  return (
    <Part title="Decisions" note="newest first" id="decisions">
      <div class="filters">
        <label>Policy<select value={policy} onChange={(e) => ask({ decided: e.currentTarget.value })}><option value="">any</option>{policies.map((p) => <option key={p.id} value={p.id}>{p.name}</option>)}</select></label>
        <label>Outcome<select value={outcome} onChange={(e) => ask({ outcome: e.currentTarget.value })}><option value="">any</option>{outcomes.map((o) => <option key={o}>{o}</option>)}</select></label>
      </div>
      <Failure error={decisions.error} />
      {decisions.data && items.length === 0 && <Empty command="edict serve --decision-log">No such decision is kept. Workers keep them when they are started so.</Empty>}
      {items.length > 0 && <ol class="events decisions" aria-label="Decisions">{items.map((d) => <Decision key={d.seq} of={d} />)}</ol>}
      {!decisions.data && <div class="waiting tall" aria-busy={!decisions.error} />}
      {(decisions.data || decisions.error) && may.readPlane.value && <Trial />}
    </Part>
  );
}

/** The colour of an outcome. */
export const colour = (outcome: string) => (outcome === "approved" ? "good" : outcome === "modified" ? "accent" : outcome === "no_opinion" || outcome === "applied" ? "plain" : "bad");

function Decision({ of: d }: { of: Schemas["Decision"] }) {
  const [open, set] = useState(false);
  return (
    <li>
      <details onToggle={(e) => set(e.currentTarget.open)}>
        <summary data-row>
          <span class="seq">{d.seq}</span><When at={d.time} /><span><Tag is={colour(d.outcome)}>{d.outcome}</Tag></span>
          <span class="about">{[d.policy?.name, d.reason ?? d.service_type].filter(Boolean).join(": ")}</span><span class="by">{d.user_id}{d.dry_run && " (dry run)"}</span>
        </summary>
        {open && (
          <div class="opened">
            {(d.policies ?? []).map((p) => <p key={p.id}><Tag is={colour(p.outcome)}>{p.outcome}</Tag> <b>{p.name}</b> <span class="muted">{p.level} version {p.version}</span></p>)}
            <pre tabIndex={0}>{JSON.stringify(d.request_payload, null, 2)}</pre>
          </div>
        )}
      </details>
    </li>
  );
}
