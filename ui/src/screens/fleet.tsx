import { useEffect, useRef, useState } from "preact/hooks";
import { address, call, type Schemas } from "../api/call";
import { counts as countNow } from "../api/counts";
import { follow } from "../api/follow";
import { Bar, Legend, type Share } from "../parts/bar";
import { Empty, Failure, Head, NodeLink, Part, Table, Tag, Value, When } from "../parts/bits";
import { Chart } from "../parts/chart";
import { word } from "../state/word";
import { useLoad, visible } from "../state/load";
import { ask, asked, href, project, projectFlag } from "../state/route";
import { count } from "../state/time";
import { may } from "../state/who";

type ByState = Pick<Schemas["NodeGroup"], "nodes" | "applied" | "lagging" | "refused" | "silent">;

/** How many nodes hold what they must, by label, and who does not. */
export function Fleet() {
  const by = asked("by");
  const whole = may.readPlane.value;
  const [followed, setFollowed] = useState(whole);
  const counts = useLoad(`fleet ${whole} ${project.value} ${by}`, (signal) => countNow({ by: by || undefined, limit: 50 }, signal), followed ? 0 : 3000);
  useFleet(whole, counts.again, () => setFollowed(false));
  const keys = useKeys(by);
  const seen = useRef<Schemas["NodeCounts"] | undefined>(undefined);
  if (counts.data) seen.current = counts.data;
  const c = counts.data ?? (counts.error ? undefined : seen.current); // while another label is counted, what was shown stays
  return (
    <>
      <Head title="Fleet" about={c && `${whole ? "The whole plane" : "This project"} at log sequence ${count(c.seq)}`} command={`edict node count${whole ? " -A" : projectFlag.value}${by && ` --by ${word(by)}`}`} />
      <Failure error={counts.error} />
      {c ? <Counts of={c} /> : <div class="waiting" aria-busy={!counts.error} />}
      {c && c.nodes > 0 && keys && (c.groups || !by) && <ByLabel of={c} by={by} keys={keys} />}
      {c && c.nodes > 0 && keys && (c.groups || keys.length === 0) && <Behind all={c.nodes - c.applied} whole={whole} />}
    </>
  );
}

// useFleet says when a number of the fleet has changed, which the plane sends at most once a second, or that it is not
// told. A page that nobody sees follows nothing: a browser has few connections to one address, for all its tabs.
function useFleet(whole: boolean, changed: () => void, refused: () => void) {
  const latest = useRef(changed);
  latest.current = changed;
  const seen = visible.value;
  useEffect(() => {
    if (!whole || !seen) return;
    return follow(address("followFleet"), "", {
      frame(f) {
        if (f.event === "fleet") latest.current();
      },
      state: (_, why) => why && refused(),
    });
  }, [whole, seen]);
}

/** Nodes by where they stand, as the parts of a bar. */
export function sharesOf(c: ByState): Share[] {
  return [
    { name: "applied", is: "good", n: c.applied },
    { name: "lagging", is: "late", n: c.lagging },
    { name: "refused", is: "bad", n: c.refused },
    { name: "silent", is: "silent", n: c.silent },
  ];
}

function Counts({ of }: { of: ByState }) {
  if (of.nodes === 0) return <Empty command={`edict node import -f nodes.ndjson${projectFlag.value}`}>No node is registered yet.</Empty>;
  const shares = sharesOf(of);
  return (
    <section class="counts" aria-label="Nodes by what they hold">
      <p class="figure"><b>{count(of.applied)}</b> of {count(of.nodes)} nodes hold what they must</p>
      <Bar shares={shares} label="Nodes" />
      <Legend shares={shares} />
      {may.readPlane.value && <Hour />}
    </section>
  );
}

function Hour() {
  const history = useLoad("hour", (signal) => call("getFleetHistory", {}, signal), 10_000);
  return <Chart of={history.data} value={(s) => s.nodes - s.applied} name="not applied" says={(most, now) => `In the last hour at most ${most} nodes did not hold what they must; now ${now}`} />;
}

/** The keys of labels that there are, of those nodes that are counted, as far as a page of them says; has the fleet counted by one. */
export function useKeys(by: string): string[] | undefined {
  const whole = may.readPlane.value;
  const keys = useLoad(`keys of labels ${whole} ${project.value}`, async (signal) => {
    const query = { limit: 100 };
    const page = await (whole ? call("listAllNodes", { query }, signal) : call("listNodes", { path: { project: project.value }, query }, signal));
    return [...new Set(page.items.flatMap((n) => Object.keys(n.labels)))].sort();
  });
  useEffect(() => {
    if (!by && keys.data && keys.data.length > 0) ask({ by: usual(keys.data) });
  }, [by, keys.data]);
  return keys.data ?? (keys.error ? [] : undefined);
}

// ByLabel counts by the value of a label.
function ByLabel({ of, by, keys }: { of: Schemas["NodeCounts"]; by: string; keys: string[] }) {
  const options = [...new Set([...keys, ...(by ? [by] : [])])];
  const groups = of.groups ?? [];
  const shown = of.by ?? by; // that of the label before, until the next is counted
  return (
    <Part title="By label" note={of.values !== undefined && of.values > groups.length ? `${count(groups.length)} of ${count(of.values)} values` : undefined}>
      <div class="tabs wrap" role="group" aria-label="Label">
        {options.map((k) => <button key={k} type="button" aria-pressed={k === by} onClick={() => ask({ by: k })}>{k}</button>)}
      </div>
      <Table caption={`Nodes by ${shown}`} heads={[shown || "Value", "Share", { name: "Nodes", number: true }, { name: "Applied", number: true }, { name: "Lagging", number: true }, { name: "Refused", number: true }, { name: "Silent", number: true }]}>
        {groups.map((g) => (
          <tr key={g.value ?? ""}>
            <td>{g.value === null ? <Value of={null} /> : <a class="id" data-row href={href("nodes", "", { labels: `${shown}=${g.value}`, all: may.readPlane.value ? "true" : "" })}><Value of={g.value} /></a>}</td>
            <td><Bar shares={sharesOf(g)} label={g.value === null ? `without ${shown}` : `${shown}=${g.value}`} /></td>
            <td class="number">{count(g.nodes)}</td><td class="number">{count(g.applied)}</td>
            <Amount n={g.lagging} /><Amount n={g.refused} /><Amount n={g.silent} />
          </tr>
        ))}
      </Table>
    </Part>
  );
}

const usual = (keys: string[]) => ["env", "environment", "region", "role"].find((k) => keys.includes(k)) ?? keys[0]!;

const Amount = ({ n }: { n: number }) => <td class={`number ${n === 0 ? "muted" : ""}`}>{count(n)}</td>;

function Behind({ all, whole }: { all: number; whole: boolean }) {
  const nodes = useLoad(`behind ${whole} ${project.value}`, (signal) => {
    const query = { state: "lagging,refused,silent", limit: 20 };
    return whole ? call("listAllNodes", { query }, signal) : call("listNodes", { path: { project: project.value }, query }, signal);
  }, 5000);
  const since = useLoad(whole ? "behind since" : null, async (signal) => {
    const { convergence } = await call("getStatus", { query: { limit: 1000 } }, signal);
    return new Map((convergence?.lagging ?? []).map((n) => [n.node_id, n.since]));
  }, 5000);
  const items = nodes.data?.items ?? [];
  return (
    <Part title="Nodes that do not hold what they must" note={all > items.length ? <>{count(items.length)} of {count(all)}, <a href={href("nodes", "", { state: "lagging,refused,silent", all: whole ? "true" : "" })}>all</a></> : undefined}>
      <Failure error={nodes.error} />
      {nodes.data && items.length === 0 ? <p class="quiet">Every node holds what it must.</p> : (
        <Table caption="Nodes that do not hold what they must" heads={["Node", "State", ...(whole ? ["Behind since"] : []), "Reported", "What it said"]}>
          {items.map((n) => <tr key={n.id}><td><NodeLink id={n.id} of={n.project_id} row /></td><td>{n.report && <State of={n.report} />}</td>{whole && <td>{since.data?.has(n.id) && <When at={since.data.get(n.id)} />}</td>}<td>{n.report?.since ? <When at={n.report.since} /> : <span class="muted">never</span>}</td><td>{n.report?.reason}</td></tr>)}
        </Table>
      )}
    </Part>
  );
}

const colours = { applied: "good", lagging: "late", refused: "bad", silent: "plain" } as const;

/** Where a node stands. */
export function State({ of }: { of: Schemas["NodeReport"] }) {
  return <Tag is={colours[of.state]}>{of.state}</Tag>;
}
