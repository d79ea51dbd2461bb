import { createParser } from "eventsource-parser";
import { passes, reach, Refused } from "./call";

export interface Frame {
  id: string;
  event: string;
  data: string;
}

/** How far a stream is: it is being opened, it runs, or it broke and is tried again. */
export type StreamState = "opening" | "open" | "broken";

const patience = [500, 1000, 2000, 4000, 8000];

// The plane says every 25 seconds that a stream is there. One that says nothing for so long is broken, though nobody said so.
const silence = 60_000;

/**
 * Follows a stream of events until stopped. One that breaks is opened again behind the
 * last event; one that is refused for good ends, by a last call of state.
 */
export function follow(url: string, after: string, on: { frame(f: Frame): void; state(s: StreamState, why?: Error): void }): () => void {
  const ended = new AbortController();
  let last = after;
  let failures = 0;
  const once = async () => {
    const headers: Record<string, string> = { Accept: "text/event-stream" };
    if (last) headers["Last-Event-ID"] = last;
    const silent = new AbortController();
    const res = await reach(url, { headers, signal: AbortSignal.any([ended.signal, silent.signal]) });
    on.state("open");
    failures = 0;
    const parser = createParser({
      onEvent: (e) => {
        if (e.id) last = e.id;
        on.frame({ id: e.id ?? "", event: e.event ?? "", data: e.data });
      },
    });
    const text = new TextDecoder();
    for (const reader = res.body!.getReader(); ; ) {
      const timer = setTimeout(() => silent.abort(), silence);
      const { done, value } = await reader.read().finally(() => clearTimeout(timer));
      if (done) return;
      parser.feed(text.decode(value, { stream: true }));
    }
  };
  const run = async () => {
    while (!ended.signal.aborted) {
      on.state(failures === 0 ? "opening" : "broken");
      try {
        await once();
      } catch (err) {
        if (ended.signal.aborted) return;
        if (err instanceof Refused && !passes(err)) {
          on.state("broken", err);
          return;
        }
      }
      const wait = patience[Math.min(failures++, patience.length - 1)]!;
      await new Promise((done) => setTimeout(done, wait));
    }
  };
  void run();
  return () => ended.abort();
}
