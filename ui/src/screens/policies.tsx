import type { Schemas } from "../api/call";
import { Empty, Failure, Head, PolicyLink, Tag, When } from "../parts/bits";
import { LongTable } from "../parts/rows";
import { useLoad } from "../state/load";
import { allPolicies } from "../state/policies";
import { project, projectFlag } from "../state/route";
import { count } from "../state/time";
import { may } from "../state/who";

/** The policies of the project. */
export function Policies() {
  const policies = useLoad("policies", allPolicies, 10_000);
  return (
    <>
      <Head title="Policies" about={policies.data && `${count(policies.data.length)} in this project${may.seePolicies.value ? "" : " that you may see"}`} command={`edict policy list${projectFlag.value}`} />
      <Failure error={policies.error} />
      {policies.data?.length === 0 && !may.seePolicies.value && <p class="quiet">There is no policy in this project that you may see: that is for <code>project:{project.value}#read</code>, or <code>policy:ID#read</code> of one.</p>}
      {policies.data?.length === 0 && may.seePolicies.value && <Empty command={`edict policy apply -f policies.yaml${projectFlag.value}`}>There is no policy yet.</Empty>}
      {policies.data ? policies.data.length > 0 && <List of={policies.data} /> : <div class="waiting tall" aria-busy={!policies.error} />}
    </>
  );
}

function List({ of }: { of: Schemas["Policy"][] }) {
  const row = (i: number, props: object) => {
    const p = of[i]!;
    return (
      <tr key={p.id} {...props}>
        <td><PolicyLink id={p.id} slug={p.slug} row /></td>
        <td title={p.display_name}>{p.display_name}</td>
        <td><Place of={p} /></td>
        <td>{p.waves && <Phase of={p.waves} />}</td>
        <td><When at={p.updated_at} /></td>
      </tr>
    );
  };
  return <LongTable caption="Policies" of="of-policies" heads={["Policy", "Name", "Place", "Rollout", "Changed"]} n={of.length} row={row} />;
}

/** Where a policy's rules stand among those of others. */
export function Place({ of }: { of: { tier?: string | undefined; priority?: number | undefined; mode?: string | undefined } }) {
  return (
    <>
      {of.tier || of.priority !== undefined ? <span>{of.tier ?? "normal"} {of.priority !== undefined && count(of.priority)}</span> : <span class="muted">not ordered</span>}
      {of.mode === "audit" && <> <Tag is="accent">audit</Tag></>}
    </>
  );
}

const colours: Record<string, "good" | "late" | "bad" | "plain" | "accent"> = { staged: "accent", progressing: "late", stopped: "bad", completed: "plain", aborted: "plain" };

/** How far a rollout is. */
export function Phase({ of }: { of: Schemas["Waves"] }) {
  const all = of.waves.length + 1;
  return <Tag is={colours[of.phase] ?? "plain"}>{of.phase}{of.phase === "progressing" || of.phase === "stopped" ? ` ${Math.min(of.opened, all)}/${all}` : ""}</Tag>;
}
