import { useState } from "preact/hooks";
import { call, type Schemas } from "../api/call";
import { project } from "../state/route";
import { count } from "../state/time";
import { may } from "../state/who";
import { Phase } from "../screens/policies";
import { Failure, Part, When } from "./bits";

/** A revision that is staged or on its way, and what may be done with it. */
export function Rollout({ policy, waves, changed }: { policy: Schemas["Policy"]; waves: Schemas["Waves"] | undefined; changed(): void }) {
  if (!waves) return null;
  const live = ["staged", "progressing", "stopped"].includes(waves.phase);
  const all = [...waves.waves, "all other nodes"];
  return (
    <Part title="Rollout" note={<><code>{waves.revision_id.slice(0, 8)}</code> <When at={waves.updated_at} /></>}>
      <p><Phase of={waves} /> {waves.reason}</p>
      {waves.phase !== "staged" && (
        <ol class="waves">{all.map((w, i) => <li key={i} class={i < waves.opened ? "opened" : ""}><span class="number">{i + 1}</span> {w} <span class="muted">{i < waves.opened ? "open" : "not yet"}</span></li>)}</ol>
      )}
      {waves.reached && <p>{count(waves.reached.applied)} of {count(waves.reached.nodes)} nodes reached have applied it, {count(waves.reached.refused)} refused it. {waves.waits_for}</p>}
      {live && may.write(policy.id) && <Moves policy={policy} waves={waves} changed={changed} />}
    </Part>
  );
}

function Moves({ policy, waves, changed }: { policy: Schemas["Policy"]; waves: Schemas["Waves"]; changed(): void }) {
  const [error, setError] = useState<Error>();
  const [busy, setBusy] = useState(false);
  const path = { project: project.value, policy: policy.id };
  const send = async (what: () => Promise<unknown>) => {
    setBusy(true);
    setError(undefined);
    try {
      await what();
      changed();
    } catch (err) {
      setError(err as Error);
    }
    setBusy(false);
  };
  const promote = (e: SubmitEvent) => {
    e.preventDefault();
    const named = String(new FormData(e.currentTarget as HTMLFormElement).get("waves")).split("\n").map((w) => w.trim()).filter(Boolean);
    void send(() => call("promoteRevision", { path, body: { revision_id: waves.revision_id, ...(named.length > 0 && { waves: named }) } }));
  };
  const abort = (e: SubmitEvent) => {
    e.preventDefault();
    const reason = String(new FormData(e.currentTarget as HTMLFormElement).get("reason"));
    void send(() => call("abortRollout", { path, body: { revision_id: waves.revision_id, ...(reason && { reason }) } }));
  };
  return (
    <div class="moves">
      {waves.phase === "staged" && (
        <form onSubmit={promote}>
          <label>Waves, a label selector a line, in order; none: all nodes at once<textarea name="waves" rows={3} placeholder={"canary=true\nregion=eu"} /></label>
          <button class="primary" disabled={busy}>Promote</button>
        </form>
      )}
      <form onSubmit={abort}>
        <label>Reason, for people<input name="reason" maxLength={200} /></label>
        <button disabled={busy}>Abort</button>
      </form>
      <Failure error={error} />
    </div>
  );
}
