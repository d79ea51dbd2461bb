import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { passes, Refused, Unreachable } from "../api/call";
import { lostSince, round } from "./connection";

/** Whether the page is seen; what another tab hides asks for nothing. */
export const visible = signal(!document.hidden);
document.addEventListener("visibilitychange", () => (visible.value = !document.hidden));

const later = 3000; // what is asked once is asked again after so long where that may help

export interface Loaded<T> {
  data: T | undefined;
  error: Error | undefined;
  again(): void;
}

/**
 * Asks for what a view shows: again whenever key changes, every so many milliseconds while
 * the page is seen, when it is seen again, and once the plane is back. What was shown stays until there is newer.
 */
export function useLoad<T>(key: string | null, ask: (signal: AbortSignal) => Promise<T>, every = 0): Loaded<T> {
  const [state, set] = useState<{ key: string | null; data?: T; error?: Error }>({ key });
  const asking = useRef<(() => unknown) | undefined>(undefined);
  const latest = useRef(ask);
  latest.current = ask;
  const asks = round.value;
  const seen = visible.value;
  useEffect(() => {
    if (key === null || !seen) return;
    const ended = new AbortController();
    let timer = 0;
    let busy = false;
    let wanted = false;
    const run = async () => {
      // What is asked already is not ended for the next: of changes that come faster than answers nothing would be shown.
      wanted = busy;
      if (busy) return;
      busy = true;
      clearTimeout(timer);
      let next = every;
      if (lostSince.peek() === null) {
        try {
          const data = await latest.current(ended.signal);
          if (!ended.signal.aborted) set({ key, data });
        } catch (err) {
          // An answer that ends in its middle fails in the browser's words.
          const error = lostSince.peek() === null || err instanceof Refused ? err : new Unreachable();
          if (every === 0 && passes(error)) next = later;
          if (!ended.signal.aborted) set((s) => ({ key, data: s.key === key ? s.data : undefined, error: error as Error }));
        }
      }
      busy = false;
      if (ended.signal.aborted) return;
      if (wanted) void run();
      else if (next > 0) timer = window.setTimeout(run, next);
    };
    asking.current = run;
    void run();
    return () => {
      asking.current = undefined;
      ended.abort();
      clearTimeout(timer);
    };
  }, [key, every, asks, seen]);
  const mine = state.key === key;
  return { data: mine ? state.data : undefined, error: mine ? state.error : undefined, again: () => void asking.current?.() };
}
