import { useEffect, useRef, useState } from "preact/hooks";
import { address } from "../api/call";
import type { operations } from "../api/schema";
import { follow, type StreamState } from "../api/follow";
import { Empty, Failure, Head, NodeLink, Options, PolicyLink, Tag } from "../parts/bits";
import { Changed, type Changing } from "../parts/change";
import { visible } from "../state/load";
import { word } from "../state/word";
import { ask, asked, project } from "../state/route";
import { clock, exact, present } from "../state/time";
import { may } from "../state/who";

export type LogEvent = Changing;

const kept = 300;
type EventType = NonNullable<NonNullable<operations["followEvents"]["parameters"]["query"]>["type"]>;

const types = [
  "policy_revision_created", "policy_deleted", "policy_revision_staged", "policy_revision_promoted", "policy_wave_opened", "policy_rollout_stopped", "policy_rollout_aborted",
  "node_updated", "node_removed", "node_registered", "artifact_released", "artifact_withdrawn", "admission_policy_updated", "admission_policy_deleted",
  "principal_updated", "principal_removed", "relation_written", "relation_removed", "signing_key_rotated",
  "project_quota_updated", "project_archived", "project_restored",
] as const satisfies EventType[];

// A type of event that is missing above does not compile here.
const every: Exclude<EventType, (typeof types)[number]> extends never ? true : never = true;
void every;

/** Where the events of the whole plane are, or of the project, as the reader may. */
export function eventsAddress(query: object): string {
  return may.readPlane.value ? address("followEvents", {}, query) : address("followProjectEvents", { project: project.value }, query);
}

/** The log as it happens. */
export function Live() {
  const type = asked("type");
  const node = asked("node");
  const policy = asked("policy");
  const [paused, pause] = useState(false);
  const { events, state, error, read } = useEvents(eventsAddress({ type, node, policy, since: useSince() }), paused);
  const submit = (e: SubmitEvent) => {
    e.preventDefault();
    const f = new FormData(e.currentTarget as HTMLFormElement);
    ask({ type: String(f.get("type")), node: String(f.get("node")).trim(), policy: String(f.get("policy")).trim() });
  };
  const flags = [type && ` --type ${word(type)}`, node && ` --node ${word(node)}`, policy && ` --policy ${word(policy)}`].filter(Boolean).join("");
  return (
    <>
      <Head title="Live" about="The log as it is folded, newest first" command={`edict events -w${flags}${may.readPlane.value ? "" : ` --project ${word(project.value)}`}`}>
        <span class="stream" role="status" data-state={state}>{paused ? "paused" : state === "open" ? "following" : state === "opening" ? "opening" : error ? "refused" : "broken, tried again"}</span>
        <button type="button" aria-pressed={paused} onClick={() => pause(!paused)}>{paused ? "Go on" : "Pause"}</button>
      </Head>
      <form class="filters" onSubmit={submit} key={`${type} ${node} ${policy}`}>
        <label>Type<select name="type"><Options of={[["", "any"], ...types]} chosen={type} /></select></label>
        <label>Node<input name="node" defaultValue={node} spellcheck={false} /></label>
        <label>Policy, its id<input name="policy" defaultValue={policy} spellcheck={false} /></label>
        <button>Filter</button>
      </form>
      <Failure error={error} />
      {!read && !error && <div class="waiting tall" aria-busy="true" />}
      {read && events.length === 0 && <Empty command="edict events --since 24h">Nothing in the last hour. What comes is shown here.</Empty>}
      {read && <ol class="events" aria-label="Events">{events.map((e) => <Event key={e.seq} of={e} />)}</ol>}
    </>
  );
}

// useSince is a moment an hour before the view was opened.
function useSince(): string {
  return useRef(new Date(present() - 3_600_000).toISOString()).current;
}

// Of a burst nobody reads each line: rows are then made anew four times a second, not twenty times.
const burst = { of: 50, every: 250, else: 50 };

// useEvents follows a stream; what arrives within a frame is shown at once. read is whether the last hour was: what
// comes of it is shown when it is whole, or after a while, so that rows do not run past. A tab that nobody sees follows
// nothing, for a browser has six connections to one address, and goes on behind its last event when it is seen.
function useEvents(url: string, paused: boolean) {
  const [events, set] = useState<LogEvent[]>([]);
  const [state, setState] = useState<StreamState>("opening");
  const [error, setError] = useState<Error>();
  const [read, setRead] = useState("");
  const last = useRef({ url: "", id: "" });
  const seen = visible.value;
  useEffect(() => {
    if (paused || !seen) return;
    if (last.current.url !== url) {
      last.current = { url, id: "" };
      set([]);
    }
    let waiting: string[] = []; // unread: of a burst most are never shown
    let frame = 0;
    let pace = burst.else;
    const whole = () => setRead(url);
    const patience = window.setTimeout(whole, 5000);
    const flush = () => {
      frame = 0;
      pace = waiting.length >= burst.of ? burst.every : burst.else;
      const more = waiting.reverse().map((text) => JSON.parse(text) as LogEvent);
      waiting = [];
      set((all) => [...more, ...all].slice(0, kept));
    };
    const stop = follow(url, last.current.id, {
      frame(f) {
        if (f.id) last.current.id = f.id;
        if (f.event === "caught_up") {
          clearTimeout(frame);
          flush();
          whole();
        }
        if (f.event !== "log_event") return;
        waiting.push(f.data);
        if (waiting.length > kept) waiting.shift();
        frame ||= window.setTimeout(flush, pace);
      },
      state(s, why) {
        setState(s);
        setError(why);
      },
    });
    return () => {
      stop();
      clearTimeout(frame);
      if (last.current.url === url) flush(); // it is not sent again
      clearTimeout(patience);
    };
  }, [url, paused, seen]);
  return { events, state, error, read: read === url };
}

/** A line of the log, which opens into the event and its verdict. */
export function Event({ of: e }: { of: LogEvent }) {
  const [open, set] = useState(false);
  return (
    <li>
      <details onToggle={(x) => set(x.currentTarget.open)}>
        <summary data-row>
          <span class="seq">{e.seq}</span>
          <time dateTime={e.time} title={exact(e.time)}>{clock(e.time)}</time>
          <span class="type">{e.type.replaceAll("_", " ")}</span>
          <span class="about">{e.policy || e.node_id || e.policy_id || e.detail}</span>
          <span class="by">{e.principal ?? (e.via ? `by ${e.via}` : "")}</span>
          {e.verdict === "rejected" && <Tag is="bad">{e.rejected}</Tag>}
        </summary>
        {open && <Whole of={e} />}
      </details>
    </li>
  );
}

function Whole({ of: e }: { of: LogEvent }) {
  const lines: [string, preact.ComponentChildren][] = [
    ["Verdict", e.verdict === "applied" ? <Tag is="good">applied</Tag> : <><Tag is="bad">rejected</Tag> {e.rejected}; it changed nothing</>],
    ["Stored", exact(e.time)],
    ["Policy", e.policy_id && <PolicyLink id={e.policy_id} slug={e.policy} of={e.project_id} />],
    ["Node", e.node_id && <NodeLink id={e.node_id} of={e.project_id} />],
    ["Detail", e.detail],
    ["By", e.principal ?? (e.claimed_principal && `${e.claimed_principal}, as the event says of itself`)],
    ["Came by", e.via ?? "the API"],
    ["Correlation id", (e.correlation_id ?? e.claimed_correlation_id) && <code>{e.correlation_id ?? e.claimed_correlation_id}</code>],
    ["Event id", <code>{e.event_id}</code>],
    ["Subject", <code>{e.subject}</code>],
  ];
  return <dl class="whole">{lines.filter(([, v]) => v).map(([k, v]) => <div key={k}><dt>{k}</dt><dd>{v}</dd></div>)}<Changed of={e} /></dl>;
}
