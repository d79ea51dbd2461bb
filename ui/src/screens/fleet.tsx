import { call, type Schemas } from "../api/call";
import { Bar, Legend, type Share } from "../parts/bar";
import { Empty, Failure, Head, NodeLink, Part, Table, When } from "../parts/bits";
import { useLoad } from "../state/load";
import { count } from "../state/time";

/** How many nodes hold what they must, and who does not. */
export function Fleet() {
  const status = useLoad("fleet", (signal) => call("getStatus", { query: { limit: 100 } }, signal), 3000);
  const c = status.data?.convergence;
  return (
    <>
      <Head title="Fleet" about={status.data && `Log sequence ${count(status.data.applied)} of ${count(status.data.head)} folded`} command="edict status" />
      <Failure error={status.error} />
      {c ? <Counts of={c} /> : <div class="waiting tall" aria-busy={!status.error} />}
      {c && <Lagging of={c.lagging} all={c.desired - c.applied} />}
    </>
  );
}

/** The fleet's nodes by what they hold. */
export function sharesOf(c: Schemas["Convergence"]): Share[] {
  const silent = c.desired - c.reported;
  const behind = c.desired - c.applied;
  const refused = Math.min(c.not_applied.refused, behind);
  return [
    { name: "applied", is: "good", n: c.applied },
    { name: "lagging", is: "late", n: Math.max(0, behind - refused - silent) },
    { name: "refused", is: "bad", n: refused },
    { name: "never reported", is: "silent", n: Math.min(silent, behind) },
  ];
}

function Counts({ of }: { of: Schemas["Convergence"] }) {
  if (of.desired === 0) return <Empty command="edict node import -f nodes.ndjson">No node is registered yet.</Empty>;
  const shares = sharesOf(of);
  return (
    <section class="counts" aria-label="Nodes by what they hold">
      <p class="figure"><b>{count(of.applied)}</b> of {count(of.desired)} nodes hold what they must</p>
      <Bar shares={shares} label="Nodes" />
      <Legend shares={shares} />
    </section>
  );
}

function Lagging({ of, all }: { of: Schemas["Lagging"][]; all: number }) {
  return (
    <Part title="Behind for the longest" note={of.length < all ? `${count(of.length)} of ${count(all)}` : undefined}>
      {of.length === 0 ? <p class="quiet">Every node has what it must.</p> : (
        <Table caption="Nodes that lag" heads={["Node", "Behind since"]}>
          {of.map((n) => <tr key={n.node_id}><td><NodeLink id={n.node_id} row /></td><td><When at={n.since} /></td></tr>)}
        </Table>
      )}
    </Part>
  );
}
