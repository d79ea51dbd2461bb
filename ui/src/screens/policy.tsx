import { useEffect, useRef, useState } from "preact/hooks";
import { call, type Schemas } from "../api/call";
import { Bar, Legend, type Share } from "../parts/bar";
import { Fact, Failure, Head, NodeLink, Part, Table, Tag, When } from "../parts/bits";
import { Arrivals, seconds } from "../parts/arrivals";
import { Draft } from "../parts/draft";
import { Rollout } from "../parts/rollout";
import { DiffLines, Rules } from "../parts/rules";
import { useLoad } from "../state/load";
import { asked, href, project, projectFlag } from "../state/route";
import { count } from "../state/time";
import { may } from "../state/who";
import { word } from "../state/word";
import { Place } from "./policies";

/** A policy: its head and history, how far it has arrived, and what a draft would do. */
export function Policy({ name: id }: { name: string }) {
  const path = { project: project.value, policy: id };
  const policy = useLoad(`policy ${id}`, (signal) => call("getPolicy", { path }, signal), 5000);
  const [limit, setLimit] = useState(few);
  const rollout = useLoad(`rollout ${id} ${limit}`, (signal) => call("getRollout", { path, query: { limit } }, signal), 3000);
  const seen = useRef(rollout.data);
  if (rollout.data) seen.current = rollout.data; // while more is asked for, what was shown stays
  const r = rollout.data ?? seen.current;
  // How many refuse it is known by their list alone.
  useEffect(() => setLimit((r?.refusals ?? []).length >= few ? most : few), [r]);
  const p = policy.data;
  return (
    <>
      <Head title={p?.slug ?? "…"} about={p && <>{p.display_name}{p.display_name && " · "}<Place of={p} /></>} command={`edict policy rollout ${word(p?.slug ?? id)}${projectFlag.value}`} />
      <Failure error={policy.error} />
      {p?.head ? <Whom of={p.head} /> : <div class="waiting" aria-busy={!policy.error} />}
      {!policy.error && (r ? <Arrival of={r} limit={limit} /> : <div class="waiting tall" aria-busy={!rollout.error} />)}
      {!policy.error && <Failure error={rollout.error} />}
      {p && r && <Rollout policy={p} waves={r.waves} changed={() => { policy.again(); rollout.again(); }} />}
      {r?.arrivals && r.arrivals.length > 0 && <Arrivals all={r.arrivals} />}
      {p?.head && <Part title="Rules" note={`${count(p.head.rules.length)} at the head`}><Rules of={p.head.rules} found={asked("rule")} /></Part>}
      {p && <History policy={p} />}
      {p?.head && may.edit(p.id) && <Draft policy={p} head={p.head} changed={rollout.again} />}
    </>
  );
}

function Whom({ of }: { of: Schemas["Revision"] }) {
  const side = (text: string) => text ? <a class="label" href={href("nodes", "", { labels: text })}>{text}</a> : <span class="muted">any node</span>;
  return (
    <dl class="facts">
      <Fact name="Source">{side(of.selector.source)}</Fact>
      <Fact name="Destination">{side(of.selector.destination)}</Fact>
      <Fact name="Head">{<code>{of.id.slice(0, 8)}</code>}</Fact>
      <Fact name="Published">{<><When at={of.created_at} /> by {of.created_by}</>}</Fact>
    </dl>
  );
}

const few = 50; // nodes that are listed
const most = 1000; // nodes that the plane lists

function Arrival({ of, limit }: { of: Schemas["Rollout"]; limit: number }) {
  const refusals = of.refusals ?? [];
  const refused = Math.min(refusals.length, of.desired - of.applied);
  const more = refusals.length >= limit; // than are listed may refuse it
  const lagging = of.lagging.slice(0, few);
  const shares: Share[] = [
    { name: "applied", is: "good", n: of.applied },
    { name: more ? "lagging or refused" : "lagging", is: "late", n: Math.max(0, of.desired - of.applied - refused) },
    { name: more ? "refused, and more" : "refused", is: "bad", n: refused },
  ];
  return (
    <section class="counts" aria-label="Arrival">
      <p class="figure"><b>{count(of.applied)}</b> of {count(of.desired)} nodes have applied the head</p>
      <Bar shares={shares} label="Nodes" />
      <div class="row"><Legend shares={shares} /><p class="muted">{of.p50_seconds !== null && <>half within {seconds(of.p50_seconds)}, 99 of 100 within {seconds(of.p99_seconds)}</>}{of.dropped > 0 && ` ${count(of.dropped)} let go of it`}</p></div>
      {of.audited && <p class="muted">In audit mode: {count(of.audited.nodes)} nodes would have denied {count(of.audited.ingress)} packets in and {count(of.audited.egress)} out.</p>}
      {of.lagging.length > 0 && (
        <details>
          <summary>Who lags{of.lagging.length >= few && `: the ${few} that do so for the longest`}</summary>
          <Table caption="Nodes that lag" heads={["Node", "Behind since", "What it said"]}>
            {lagging.map((n) => {
              const said = refusals.find((r) => r.node_id === n.node_id);
              return <tr key={n.node_id}><td><NodeLink id={n.node_id} row /></td><td><When at={n.since} /></td><td>{said && <><Tag is="bad">{said.outcome}</Tag> {said.reason}</>}</td></tr>;
            })}
          </Table>
        </details>
      )}
    </section>
  );
}

function History({ policy }: { policy: Schemas["Policy"] }) {
  const path = { project: project.value, policy: policy.id };
  const revisions = useLoad(`revisions ${policy.head_revision_id}`, (signal) => call("listRevisions", { path, query: { limit: 100 } }, signal));
  const items = revisions.data?.items ?? [];
  return (
    <Part title="History" note={revisions.data && `${count(items.length)}${revisions.data.next_cursor ? " or more" : ""} revisions`}>
      <Failure error={revisions.error} />
      <ol class="history">{items.map((r) => <Revision key={r.id} of={r} head={r.id === policy.head_revision_id} />)}</ol>
    </Part>
  );
}

function Revision({ of, head }: { of: Schemas["Revision"]; head: boolean }) {
  const [open, set] = useState(false);
  return (
    <li>
      <details onToggle={(e) => set(e.currentTarget.open)}>
        <summary data-row><code>{of.id.slice(0, 8)}</code> {head && <Tag is="accent">head</Tag>} <span>{of.created_by}</span> <When at={of.created_at} /> <span class="muted">{count(of.rules.length)} rules{of.parent_id === null && ", the first"}</span></summary>
        {open && (of.parent_id ? <Between policy={of.policy_id} from={of.parent_id} to={of.id} /> : <Rules of={of.rules} />)}
      </details>
    </li>
  );
}

function Between({ policy, from, to }: { policy: string; from: string; to: string }) {
  const diff = useLoad(`diff ${from} ${to}`, (signal) => call("diffRevisions", { path: { project: project.value, policy }, query: { from_revision: from, to_revision: to } }, signal));
  if (diff.error) return <Failure error={diff.error} />;
  return diff.data ? <DiffLines of={diff.data} /> : <div class="waiting" aria-busy="true" />;
}
