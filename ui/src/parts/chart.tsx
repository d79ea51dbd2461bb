import type { Schemas } from "../api/call";
import { count, exact, span } from "../state/time";

const wide = 1000;
const high = 60;

type Sample = Schemas["FleetHistory"]["items"][number];

/** A number over the last hour. */
export function Chart({ of, value, name, says, plain }: {
  of: Schemas["FleetHistory"] | undefined;
  value(s: Sample): number;
  name: string; // of the number, after which its most stands
  says(most: number, now: number): string; // for those who do not see it
  plain?: boolean; // a number that is not bad
}) {
  const items = of?.items ?? [];
  const end = items.length > 0 ? Date.parse(items.at(-1)!.time) : Date.now();
  const values = items.map(value);
  const most = Math.max(0, ...values);
  const top = Math.max(1, most);
  // Of a worker that started a moment ago there is less than an hour to show.
  const shown = Math.min(3_600_000, Math.max(120_000, items.length > 0 ? end - Date.parse(items[0]!.time) : 0));
  const at = (time: string) => wide * (1 + (Date.parse(time) - end) / shown);
  const up = (n: number) => high - (n / top) * (high - 4) - 1;
  const line = items.map((s, i) => `${at(s.time).toFixed(1)},${up(values[i]!).toFixed(1)}`).join(" ");
  const first = items.length > 0 ? at(items[0]!.time) : wide;
  return (
    <figure class={`chart ${plain ? "plain" : ""}`}>
      <svg viewBox={`0 0 ${wide} ${high}`} preserveAspectRatio="none" role="img" aria-label={items.length > 0 ? says(most, values.at(-1)!) : "No history yet"}>
        <path class="axis" d={`M0 ${high - 1}H${wide}`} />
        {items.length > 0 && <polygon points={`${first.toFixed(1)},${high - 1} ${line} ${wide},${high - 1}`} />}
        {items.length > 0 && <polyline points={line} />}
      </svg>
      <figcaption class="muted"><span>{span(shown / 1000)} ago</span><span>{name}, at most {count(most)}</span><span title={items.length > 0 ? exact(items.at(-1)!.time) : ""}>now</span></figcaption>
    </figure>
  );
}
