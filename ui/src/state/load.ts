import { useEffect, useRef, useState } from "preact/hooks";
import { lostSince, round } from "./connection";

export interface Loaded<T> {
  data: T | undefined;
  error: Error | undefined;
  again(): void;
}

/**
 * Asks for what a view shows: again whenever key changes, every so many milliseconds while
 * the page is seen, and once the plane is back. What was shown stays until there is newer.
 */
export function useLoad<T>(key: string | null, ask: (signal: AbortSignal) => Promise<T>, every = 0): Loaded<T> {
  const [state, set] = useState<{ key: string | null; data?: T; error?: Error }>({ key });
  const [turn, next] = useState(0);
  const latest = useRef(ask);
  latest.current = ask;
  const seen = round.value;
  useEffect(() => {
    if (key === null) return;
    const ended = new AbortController();
    let timer = 0;
    const run = async () => {
      if (!document.hidden && lostSince.peek() === null) {
        try {
          const data = await latest.current(ended.signal);
          if (!ended.signal.aborted) set({ key, data });
        } catch (error) {
          if (!ended.signal.aborted) set((s) => ({ key, data: s.key === key ? s.data : undefined, error: error as Error }));
        }
      }
      if (every > 0 && !ended.signal.aborted) timer = window.setTimeout(run, every);
    };
    void run();
    return () => {
      ended.abort();
      clearTimeout(timer);
    };
  }, [key, every, turn, seen]);
  const mine = state.key === key;
  return { data: mine ? state.data : undefined, error: mine ? state.error : undefined, again: () => next((n) => n + 1) };
}
