import { useState } from "preact/hooks";
import { call } from "../api/call";
import { Empty, Failure, Head, Labels, NodeLink, Options, Table } from "../parts/bits";
import { word } from "../state/word";
import { State } from "./fleet";
import { useLoad } from "../state/load";
import { ask, asked, project, projectFlag } from "../state/route";
import { may } from "../state/who";

/** The nodes of the project, or of all projects, a page at a time. */
export function Nodes() {
  const labels = asked("labels");
  const state = asked("state");
  const whole = asked("all") === "true" && may.readPlane.value;
  const filters = `${labels} ${state} ${whole}`;
  const [pages, setPages] = useState<{ of: string; trail: string[] }>({ of: filters, trail: [] }); // cursors of the pages before, which are good for these filters
  const trail = pages.of === filters ? pages.trail : [];
  const setTrail = (to: string[]) => setPages({ of: filters, trail: to });
  const cursor = trail.at(-1);
  const key = `nodes ${whole} ${project.value} ${labels} ${state} ${cursor ?? ""}`;
  const nodes = useLoad(key, (signal) => {
    const query = { limit: 50, cursor, label_selector: labels || undefined, state: state || undefined };
    return whole ? call("listAllNodes", { query }, signal) : call("listNodes", { path: { project: project.value }, query: { ...query, report: true } }, signal);
  }, 10_000);
  const filter = (e: SubmitEvent) => {
    e.preventDefault();
    const f = new FormData(e.currentTarget as HTMLFormElement);
    ask({ labels: String(f.get("labels")).trim(), state: String(f.get("state")), all: String(f.get("all") ?? "") });
  };
  const next = nodes.data?.next_cursor;
  return (
    <>
      <Head title="Nodes" about={whole ? "Of all projects" : "Of this project"} command={`edict node list${whole ? " -A" : ""}${labels && ` -l ${word(labels)}`}${state && ` --state ${word(state)}`}${whole ? "" : projectFlag.value}`} />
      <form class="filters" onSubmit={filter} key={filters}>
        <label>Labels<input name="labels" defaultValue={labels} placeholder="role=db,env=prod" spellcheck={false} /></label>
        <label>State<select name="state"><Options of={[["", "any"], ["lagging,refused,silent", "not applied"], "applied", "lagging", "refused", "silent"]} chosen={state} /></select></label>
        {may.readPlane.value && <label>Project<select name="all"><Options of={[["", "this one"], ["true", "all"]]} chosen={whole ? "true" : ""} /></select></label>}
        <button>Show</button>
      </form>
      <Failure error={nodes.error} />
      {nodes.data?.items.length === 0 && <Empty command={`edict node import -f nodes.ndjson${projectFlag.value}`}>{labels || state ? "No node is so." : "No node is registered yet."}</Empty>}
      {nodes.data ? nodes.data.items.length > 0 && (
        <Table caption="Nodes" heads={["Node", "State", "Labels", "Addresses"]}>
          {nodes.data.items.map((n) => <tr key={n.id}><td><NodeLink id={n.id} of={n.project_id} row /></td><td>{n.report && <State of={n.report} />}</td><td><Labels of={n.labels} /></td><td class="mono">{n.addresses.join(" ")}</td></tr>)}
        </Table>
      ) : <div class="waiting tall" aria-busy={!nodes.error} />}
      <div class="pages">
        <button type="button" disabled={trail.length === 0} onClick={() => setTrail(trail.slice(0, -1))}>Back</button>
        <span class="muted">page {trail.length + 1}</span>
        <button type="button" disabled={!next} onClick={() => setTrail([...trail, next!])}>Next</button>
      </div>
    </>
  );
}
