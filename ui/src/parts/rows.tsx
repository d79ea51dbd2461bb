import type { ComponentChildren, VNode } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

const few = 120; // rows that are all there
const step = 8; // rows that come and go together
const beyond = 16; // rows above and below what is seen

/** A table of many rows of one height: those near what is seen are there, and all are counted. */
export function LongTable({ caption, heads, n, row, of }: {
  caption: string;
  heads: string[];
  n: number;
  row(i: number, props: { "aria-rowindex": number }): VNode;
  of: string; // the class that says how wide the columns are
}) {
  const made = useMemo(() => new Map<number, VNode>(), [row]); // a row that is the same is not looked at again
  const body = useRef<HTMLTableSectionElement>(null);
  const [height, measure] = useState(0); // of a row; 0: not known yet
  const [first, see] = useState(0);
  const whole = n <= few;
  const most = Math.ceil(innerHeight / Math.max(height, 24) / step) * step + step + 2 * beyond;
  const from = whole ? 0 : Math.max(0, Math.min(first - beyond, n - most));
  const to = whole ? n : Math.min(n, from + most);
  useLayoutEffect(() => {
    const rows = [...body.current!.rows].filter((r) => r.ariaHidden !== "true");
    if (!whole && rows.length > 0) measure((rows[rows.length - 1]!.getBoundingClientRect().bottom - rows[0]!.getBoundingClientRect().top) / rows.length);
  }, [whole, from === to]);
  useEffect(() => {
    if (whole || height === 0) return;
    let top = 0; // of the table on the page; asking for it while the page scrolls would lay it out each time
    const look = () => see(Math.max(0, Math.floor((scrollY - top) / height / step) * step));
    const place = () => {
      top = body.current!.parentElement!.getBoundingClientRect().top + scrollY;
      look();
    };
    place();
    addEventListener("scroll", look, { passive: true });
    addEventListener("resize", place);
    return () => {
      removeEventListener("scroll", look);
      removeEventListener("resize", place);
    };
  }, [whole, height, row]);
  return (
    <div class="scroll" role="region" aria-label={caption} tabIndex={0}>
      <table class={`long ${of}`} aria-rowcount={n + 1}>
        <caption class="unseen">{caption}</caption>
        <thead><tr aria-rowindex={1}>{heads.map((h) => <th key={h} scope="col">{h}</th>)}</tr></thead>
        <tbody ref={body}>
          {from > 0 && <Room key="above" rows={from} height={height} columns={heads.length} />}
          {range(from, to).map((i) => made.get(i) ?? made.set(i, row(i, { "aria-rowindex": i + 2 })).get(i)!)}
          {to < n && <Room key="below" rows={n - to} height={height} columns={heads.length} />}
        </tbody>
      </table>
    </div>
  );
}

const range = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i);

// Room is as high as the rows that are not there.
function Room({ rows, height, columns }: { rows: number; height: number; columns: number }): ComponentChildren {
  return <tr aria-hidden="true"><td class="room" colSpan={columns} style={{ height: `${rows * height}px` }} /></tr>;
}
