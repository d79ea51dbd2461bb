import type { Schemas } from "../api/call";
import { count, exact, span } from "../state/time";

const wide = 1000;
const high = 60;

/** How many nodes did not hold what they must, over the last hour. */
export function Chart({ of }: { of: Schemas["FleetHistory"] | undefined }) {
  const items = of?.items ?? [];
  const end = items.length > 0 ? Date.parse(items.at(-1)!.time) : Date.now();
  const behind = items.map((s) => s.nodes - s.applied);
  const top = Math.max(1, ...behind);
  // Of a worker that started a moment ago there is less than an hour to show.
  const shown = Math.min(3_600_000, Math.max(120_000, items.length > 0 ? end - Date.parse(items[0]!.time) : 0));
  const at = (time: string) => wide * (1 + (Date.parse(time) - end) / shown);
  const up = (n: number) => high - (n / top) * (high - 4) - 1;
  const line = items.map((s, i) => `${at(s.time).toFixed(1)},${up(behind[i]!).toFixed(1)}`).join(" ");
  const first = items.length > 0 ? at(items[0]!.time) : wide;
  return (
    <figure class="chart">
      <svg viewBox={`0 0 ${wide} ${high}`} preserveAspectRatio="none" role="img" aria-label={items.length > 0 ? `In the last hour at most ${top} nodes did not hold what they must; now ${behind.at(-1)}` : "No history yet"}>
        <path class="axis" d={`M0 ${high - 1}H${wide}`} />
        {items.length > 0 && <polygon points={`${first.toFixed(1)},${high - 1} ${line} ${wide},${high - 1}`} />}
        {items.length > 0 && <polyline points={line} />}
      </svg>
      <figcaption class="muted"><span>{span(shown / 1000)} ago</span><span>not applied, at most {count(items.length > 0 ? top : 0)}</span><span title={items.length > 0 ? exact(items.at(-1)!.time) : ""}>now</span></figcaption>
    </figure>
  );
}
