import { call, everyItem, type Schemas } from "../api/call";
import { Fact, Failure, Head, Part, Table, Tag, When } from "../parts/bits";
import { Chart } from "../parts/chart";
import { useLoad } from "../state/load";
import { bytes, count, span } from "../state/time";

type Status = Schemas["Status"];

/** The workers of the plane, its log, its disk and its keys. */
export function Workers() {
  const status = useLoad("status", (signal) => call("getStatus", { query: { limit: 1 } }, signal), 3000);
  const s = status.data;
  return (
    <>
      <Head title="Workers" about={s && `Durability ${s.durability}`} command="edict status" />
      <Failure error={status.error} />
      {s ? <><Log of={s} /><List of={s} /><Hour /></> : <div class="waiting tall" aria-busy={!status.error} />}
      <Keys />
      {s && <Rejected all={s.rejected} head={s.head} />}
    </>
  );
}

function Log({ of: s }: { of: Status }) {
  return (
    <dl class="facts" aria-label="Log">
      <Fact name="Log head">{count(s.head)}</Fact>
      <Fact name="Log">{bytes(s.log.bytes)}</Fact>
      <Fact name="Growth">{s.log.bytes_per_day === undefined ? <span class="muted">not known yet</span> : `${bytes(s.log.bytes_per_day)} a day`}</Fact>
      <Fact name="Room on the disk">{s.log.room_bytes === undefined ? <span class="muted">not known</span> : bytes(s.log.room_bytes)}</Fact>
      <Fact name="Full in">{s.log.full_in_seconds === undefined ? <span class="muted">not foreseen</span> : span(s.log.full_in_seconds)}</Fact>
      <Fact name="Kept past">{count(s.past.records)} records, {bytes(s.past.bytes)}</Fact>
      <Fact name="Log since"><When at={s.log.created} /></Fact>
    </dl>
  );
}

// publishes says whether a worker publishes to a partition. Two may have one name, so its owner says.
const publishes = (w: Status["workers"][number], p: Status["partitions"][number]) => (p.owner ? p.owner === w.owner : p.publisher === w.name);

function List({ of: s }: { of: Status }) {
  const nobody = s.partitions.filter((p) => !p.publisher).length;
  return (
    <Part title="Workers" note={nobody > 0 && <Tag is="late">{`${nobody} partitions have no publisher`}</Tag>}>
      <Table caption="Workers" heads={["Worker", "API", "Started", { name: "Folded to", number: true }, { name: "Behind", number: true }, { name: "Partitions", number: true }, { name: "Published to", number: true }]}>
        {s.workers.map((w) => {
          const share = s.partitions.filter((p) => publishes(w, p));
          return (
            <tr key={w.owner}>
              <td><b>{w.name}</b></td><td class="mono">{w.http || "none"}</td><td><When at={w.started} /></td>
              <td class="number">{count(w.applied)}</td><td class="number">{w.lag > 0 ? <Tag is="late">{count(w.lag)}</Tag> : "0"}</td>
              <td class="number">{share.length} of {s.partitions.length}</td><td class="number">{share.length > 0 ? count(Math.min(...share.map((p) => p.upto))) : "–"}</td>
            </tr>
          );
        })}
      </Table>
      <Partitions of={s} />
    </Part>
  );
}

// Hour is the health of the worker that the page asks, over its last hour.
function Hour() {
  const history = useLoad("hour of the worker", (signal) => call("getFleetHistory", {}, signal), 10_000);
  return (
    <Part title="The last hour" note="of the worker at this address">
      <Failure error={history.error} />
      <div class="columns">
        <Chart of={history.data} value={(s) => s.log_seq - s.applied_seq} name="events behind the log" says={(most, now) => `In the last hour the fold was at most ${most} events behind the log; now ${now}`} />
        <Chart plain of={history.data} value={(s) => s.streams} name="streams of nodes" says={(most, now) => `In the last hour at most ${most} nodes followed their streams; now ${now}`} />
      </div>
    </Part>
  );
}

// Partitions are a square each, coloured by the worker that publishes to it.
function Partitions({ of: s }: { of: Status }) {
  const of = (p: Status["partitions"][number]) => s.workers.findIndex((w) => publishes(w, p));
  const size = 14;
  const wide = Math.min(s.partitions.length, 32);
  return (
    <svg class="partitions" viewBox={`0 0 ${wide * size} ${Math.ceil(s.partitions.length / wide) * size}`} role="img" aria-label={`${s.partitions.length} partitions by worker`}>
      {s.partitions.map((p, i) => (
        <rect key={p.id} class={p.publisher ? `worker-${of(p) % 4}` : "nobody"} x={(i % wide) * size} y={Math.floor(i / wide) * size} width={size - 2} height={size - 2} rx="2">
          <title>{`partition ${p.id}: ${p.publisher || "nobody"}, up to ${p.upto}`}</title>
        </rect>
      ))}
    </svg>
  );
}

function Keys() {
  const keys = useLoad("keys", (signal) => call("listKeys", {}, signal), 30_000);
  return (
    <Part title="Keys" note="that messages to nodes are signed with">
      <Failure error={keys.error} />
      {keys.data && (
        <Table caption="Keys" heads={["Key", "Public key", "Status", "Not after"]}>
          {keys.data.items.map((k) => <tr key={k.key_id + k.plane}><td><code>{k.key_id}</code></td><td><code>{k.public_key}</code></td><td><Tag is={k.status === "current" ? "good" : "plain"}>{k.status}</Tag></td><td>{k.not_after ? <When at={k.not_after} /> : "–"}</td></tr>)}
        </Table>
      )}
    </Part>
  );
}

const shown = 50;

// lastRejected are those that the fold rejected last, the last one first. The plane lists them from the first one, so it
// is asked for those of the log's end, and of more of it until there are enough.
async function lastRejected(head: number, signal: AbortSignal): Promise<Schemas["Rejection"][]> {
  for (let reach = 1000; ; reach *= 4) {
    const first = Math.max(0, head - reach);
    const found = await everyItem((cursor) => call("listRejected", { query: { limit: 200, after: cursor ? Number(cursor) : first } }, signal));
    if (found.length >= shown || reach >= head) return found.slice(-shown).reverse();
  }
}

function Rejected({ all, head }: { all: number; head: number }) {
  const rejected = useLoad(`rejected ${all}`, (signal) => lastRejected(head, signal));
  const items = rejected.data ?? [];
  return (
    <Part title="Rejected events" note={all > items.length && items.length > 0 ? `the last ${count(items.length)} of ${count(all)}` : count(all)}>
      <Failure error={rejected.error} />
      {rejected.data && items.length === 0 && <p class="quiet">None that is kept.</p>}
      {items.length > 0 && (
        <Table caption="Rejected events" heads={[{ name: "Sequence", number: true }, "Type", "Code", "Detail", "Stored"]}>
          {items.map((r) => <tr key={r.seq}><td class="number">{r.seq}</td><td>{r.type}</td><td><Tag is="bad">{r.code}</Tag></td><td>{r.detail}</td><td><When at={r.time} /></td></tr>)}
        </Table>
      )}
    </Part>
  );
}
