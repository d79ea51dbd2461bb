import { signal } from "@preact/signals";

// How far the plane's clock is ahead of the browser's, in milliseconds.
let ahead = 0;

/** The present by the plane's clock, which the moments that are shown are of. */
export const present = () => Date.now() + ahead;

/** The present, for relative times; it moves every ten seconds. */
export const now = signal(present());
setInterval(() => (now.value = present()), 10_000);

/** Goes by the clock of the plane from here on, where the browser's is another; date is what an answer said. */
export function setClock(date: string | null): void {
  const off = Date.parse(date ?? "") - Date.now();
  if (Number.isNaN(off) || Math.abs(off - ahead) < 5000) return;
  ahead = Math.abs(off) < 5000 ? 0 : off;
  now.value = present();
}

const units: [number, string][] = [[86_400, "d"], [3_600, "h"], [60, "min"], [1, "s"]];

/** A length of time, by its largest unit. */
export function span(seconds: number): string {
  for (const [of, unit] of units) if (seconds >= of) return `${Math.floor(seconds / of)} ${unit}`;
  return seconds > 0 ? `${Math.round(seconds * 1000)} ms` : "0 s";
}

/** How long ago a moment was, or in how long it is. */
export function ago(at: string, present: number): string {
  const seconds = (present - Date.parse(at)) / 1000;
  if (seconds < -30) return `in ${span(-seconds)}`;
  return seconds < 2 ? "just now" : `${span(seconds)} ago`;
}

/** A moment as it is where the reader is, to the second. */
export function moment(at: string): string {
  return new Date(at).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

/** A moment whole, as it is where the reader is. */
export const exact = (at: string) => `${moment(at)} (${at})`;

/** The time of a day, to the millisecond. */
export function clock(at: string): string {
  const d = new Date(at);
  const two = (n: number) => String(n).padStart(2, "0");
  return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}.${String(d.getMilliseconds()).padStart(3, "0")}`;
}

const grouped = new Intl.NumberFormat("en");

/** A number with its thousands apart. */
export const count = (n: number) => grouped.format(n);

/** Bytes by their largest unit. */
export function bytes(n: number): string {
  for (const [of, unit] of [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]] as const) {
    if (n >= of) return `${(n / of).toFixed(n >= of * 100 ? 0 : 1)} ${unit}`;
  }
  return `${n} B`;
}
