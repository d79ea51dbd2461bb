import { count } from "../state/time";

export interface Share {
  name: string;
  is: "good" | "late" | "bad" | "silent";
  n: number;
}

/** How a whole is divided, as a bar. */
export function Bar({ shares, label }: { shares: Share[]; label: string }) {
  const whole = shares.reduce((sum, s) => sum + s.n, 0);
  let x = 0;
  const text = shares.map((s) => `${count(s.n)} ${s.name}`).join(", ");
  return (
    <svg class="bar" viewBox="0 0 1000 10" preserveAspectRatio="none" role="img" aria-label={`${label}: ${text}`}>
      <rect class="bar-ground" width="1000" height="10" />
      {shares.map((s) => {
        // What is there is seen, however few there are.
        const wide = whole === 0 || s.n === 0 ? 0 : Math.max(4, (s.n / whole) * 1000);
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
