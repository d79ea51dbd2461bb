import type { Schemas } from "../api/call";
import { count } from "../state/time";
import { Part, Table, When } from "./bits";

type Arrival = Schemas["Arrival"];

/** Seconds as people say them. */
export const seconds = (n: number | null | undefined) => (n === null || n === undefined ? "–" : n < 1 ? `${Math.round(n * 1000)} ms` : n < 120 ? `${n.toFixed(1)} s` : `${(n / 60).toFixed(0)} min`);

/** How the policy's changes arrived: the last one's curve, and those before it. */
export function Arrivals({ all }: { all: Arrival[] }) {
  return (
    <Part title="How changes arrived" note="as this worker heard the reports">
      <Curves of={all} />
      <Table caption="How changes arrived" heads={["Revision", "Published", { name: "Log sequence", number: true }, { name: "Nodes", number: true }, { name: "Half within", number: true }, { name: "99 of 100 within", number: true }]}>
        {all.map((a, i) => (
          <tr key={a.log_seq}>
            <td><svg class="key" viewBox="0 0 20 8" width="20" height="8" aria-hidden="true"><path class={`curve curve-${i}`} d="M0 4H20" /></svg> {a.revision_id ? <code>{a.revision_id.slice(0, 8)}</code> : <span class="muted">taken away</span>}</td>
            <td><When at={a.time} /></td>
            <td class="number">{count(a.log_seq)}</td><td class="number">{count(a.nodes)}</td>
            <td class="number">{seconds(a.p50_seconds)}</td><td class="number">{seconds(a.p99_seconds)}</td>
          </tr>
        ))}
      </Table>
    </Part>
  );
}

const wide = 1000;
const high = 120;

// Curves are the shares of nodes that had each change after how long, on a scale of powers of ten.
function Curves({ of }: { of: Arrival[] }) {
  const ends = of.flatMap((a) => [a.curve[0]!.seconds, a.curve.at(-1)!.seconds]);
  const from = Math.floor(Math.log10(Math.min(...ends)) - 0.01);
  const to = Math.max(from + 1, Math.ceil(Math.log10(Math.max(...ends))));
  const x = (s: number) => (wide * (Math.log10(s) - from)) / (to - from);
  const path = (a: Arrival) => {
    let d = `M0 ${high - 1}`;
    for (const p of a.curve) d += `H${x(p.seconds).toFixed(1)}V${(high - 1 - (p.nodes / a.nodes) * (high - 3)).toFixed(1)}`;
    return d + `H${wide}`;
  };
  const marks = Array.from({ length: to - from + 1 }, (_, i) => from + i);
  return (
    <figure class="chart curves">
      <svg viewBox={`0 0 ${wide} ${high}`} preserveAspectRatio="none" role="img" aria-label={`Shares of nodes by time: half of ${count(of[0]!.nodes)} within ${seconds(of[0]!.p50_seconds)}, 99 of 100 within ${seconds(of[0]!.p99_seconds)}`}>
        {marks.map((m) => <path key={m} class="axis" d={`M${x(10 ** m).toFixed(1)} 0V${high}`} />)}
        <path class="axis" d={`M0 ${high - 1}H${wide}`} />
        {of.map((a, i) => <path key={a.log_seq} class={`curve curve-${i}`} d={path(a)} />).reverse()}
      </svg>
      <figcaption class="muted">{marks.map((m) => <span key={m}>{seconds(10 ** m)}</span>)}</figcaption>
    </figure>
  );
}
