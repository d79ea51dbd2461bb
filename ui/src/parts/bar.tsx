import { count } from "../state/time";

export interface Share {
  name: string;
  is: "good" | "late" | "bad" | "silent";
  n: number;
}

const least = 4; // of a bar of 1000

/** How a whole is divided, as a bar. */
export function Bar({ shares, label }: { shares: Share[]; label: string }) {
  const whole = shares.reduce((sum, s) => sum + s.n, 0);
  // What is there is seen, however few there are; the others have the room that is left.
  const few = (s: Share) => s.n > 0 && s.n * 1000 < least * whole;
  const many = shares.reduce((sum, s) => sum + (few(s) ? 0 : s.n), 0);
  const room = 1000 - least * shares.filter(few).length;
  let x = 0;
  const text = shares.map((s) => `${count(s.n)} ${s.name}`).join(", ");
  return (
    <svg class="bar" viewBox="0 0 1000 10" preserveAspectRatio="none" role="img" aria-label={`${label}: ${text}`}>
      <rect class="bar-ground" width="1000" height="10" />
      {shares.map((s) => {
        const wide = s.n === 0 ? 0 : few(s) ? least : (s.n / many) * room;
        const at = x;
        x += wide;
        return <rect key={s.name} class={s.is} x={at} width={wide} height="10" />;
      })}
    </svg>
  );
}

/** The bar's parts by their names. */
export function Legend({ shares }: { shares: Share[] }) {
  return (
    <ul class="legend">
      {shares.map((s) => <li key={s.name}><i class={s.is} /><b>{count(s.n)}</b> {s.name}</li>)}
    </ul>
  );
}
