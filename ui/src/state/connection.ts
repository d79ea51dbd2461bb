import { signal } from "@preact/signals";

/** Since when the plane does not answer; null while it does. */
export const lostSince = signal<number | null>(null);

/** When it answered again, for a moment after it was lost. */
export const foundAgain = signal(false);

/** Why there is no session, or none any more; empty while nothing was refused for it. */
export const sessionOver = signal("");

/** Whether the page signs out, which needs the plane. */
export const leaving = signal(false);

/** Grows whenever what is shown should be asked again. */
export const round = signal(0);

let probing = false;
let waiting = new AbortController();

/** Ends what was asked before the plane was lost: a browser has six connections to one address, and dead ones take their place. */
export const alive = () => waiting.signal;

export function lost(): void {
  if (lostSince.value === null) {
    lostSince.value = Date.now();
    waiting.abort();
    waiting = new AbortController();
  }
  if (!probing) {
    probing = true;
    void probe();
  }
}

export function answered(): void {
  if (lostSince.value === null) return;
  lostSince.value = null;
  foundAgain.value = true;
  round.value++;
  setTimeout(() => (foundAgain.value = false), 4000);
}

export function over(why: string): void {
  sessionOver.value = why;
}

/** An answer takes long: asks whether the plane answers anything. */
export async function doubt(): Promise<void> {
  try {
    await fetch("/livez", { cache: "no-store", signal: AbortSignal.timeout(patience) });
  } catch {
    lost();
  }
}

const patience = 5000; // with a plane that only has to say that it is there

// probe asks until there is an answer, so that the page goes on by itself.
async function probe(): Promise<void> {
  for (let wait = 500; ; wait = Math.min(wait * 2, 5000)) {
    await new Promise((done) => setTimeout(done, wait));
    try {
      const res = await fetch("/readyz", { cache: "no-store", signal: AbortSignal.timeout(patience) });
      if (res.ok) break;
    } catch {
      // not yet
    }
  }
  probing = false;
  answered();
}
