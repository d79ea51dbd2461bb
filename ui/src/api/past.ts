import { createParser } from "eventsource-parser";
import { reach, type Schemas } from "./call";

/** Events above one sequence and up to another, oldest first, at most so many. */
export async function eventsBetween(url: string, after: number, upTo: number, most: number, signal: AbortSignal): Promise<{ events: Schemas["LogEvent"][]; more: boolean }> {
  const events: Schemas["LogEvent"][] = [];
  if (upTo <= after) return { events, more: false };
  const stop = new AbortController();
  const end = () => stop.abort();
  signal.addEventListener("abort", end);
  let done = false;
  let more = false;
  const parser = createParser({
    onEvent(e) {
      if (done) return;
      if (Number(e.id) > upTo || e.event === "caught_up") done = true;
      else if (events.length === most) done = more = true;
      else events.push(JSON.parse(e.data) as Schemas["LogEvent"]);
      if (Number(e.id) === upTo) done = true;
    },
  });
  try {
    const res = await reach(url, { headers: { Accept: "text/event-stream", "Last-Event-ID": String(after) }, signal: stop.signal });
    const text = new TextDecoder();
    for (const reader = res.body!.getReader(); !done; ) {
      const piece = await reader.read();
      if (piece.done) break;
      parser.feed(text.decode(piece.value, { stream: true }));
    }
  } finally {
    stop.abort();
    signal.removeEventListener("abort", end);
  }
  return { events, more };
}
