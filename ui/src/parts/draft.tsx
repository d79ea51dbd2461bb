import { useEffect, useState } from "preact/hooks";
import { call, type Schemas } from "../api/call";
import { project, projectFlag } from "../state/route";
import { count } from "../state/time";
import { may, self } from "../state/who";
import { Failure, NodeLink, Part, Table, Tag } from "./bits";
import { Command } from "./command";
import { DiffLines } from "./rules";

type Preview = Schemas["Preview"];

// draftOf is what an author would write to get a revision.
function draftOf(head: Schemas["Revision"]): string {
  const { selector, tier, priority, default_deny, mode, rules } = head;
  return JSON.stringify({ selector, tier, priority, default_deny, mode, rules } satisfies Preview, null, 2);
}

// Base is what a draft began with.
interface Base {
  head: string; // the revision's id
  text: string;
}

const baseOf = (head: Schemas["Revision"]): Base => ({ head: head.id, text: draftOf(head) });

interface Kept {
  base: Base;
  text: string;
}

// What somebody wrote stays while they look at another view or sign in again. The tab has it, until they sign out.
function keep(name: string, draft: Kept | undefined): void {
  try {
    draft ? sessionStorage.setItem(name, JSON.stringify(draft)) : sessionStorage.removeItem(name);
  } catch {
    // a browser that keeps nothing loses it, as it does everything
  }
}

function recall(name: string): Kept | undefined {
  try {
    return (JSON.parse(sessionStorage.getItem(name) ?? "null") as Kept | null) ?? undefined;
  } catch {
    return undefined;
  }
}

/** A draft of the next revision: what it would do, and its staging. */
export function Draft({ policy, head, changed }: { policy: Schemas["Policy"]; head: Schemas["Revision"]; changed(): void }) {
  const name = `draft ${self.value?.id ?? ""} ${project.value} ${policy.id}`; // of who writes it
  const [kept] = useState(() => recall(name));
  const [base, setBase] = useState<Base>(kept?.base ?? baseOf(head)); // what the draft began with
  const [text, setText] = useState(kept?.text ?? base.text);
  useEffect(() => keep(name, text === base.text ? undefined : { base, text }), [text, base]);
  const [plan, setPlan] = useState<{ of: string; is: Schemas["DryRun"] }>();
  const [error, setError] = useState<Error>();
  const [staged, setStaged] = useState("");
  const begin = () => {
    setBase(baseOf(head));
    setText(draftOf(head));
  };
  // Somebody else may publish in the meantime: a draft that nobody wrote at is then of the new head, and another is
  // planned again, which shows what it would undo.
  useEffect(() => {
    if (head.id === base.head) return;
    setPlan(undefined);
    if (text === base.text) begin();
  }, [head.id]);
  const path = { project: project.value, policy: policy.id };
  // The plane is sent the text: written anew it would have one of the members that stand there twice.
  const attempt = async (what: () => Promise<void>) => {
    setError(undefined);
    setStaged("");
    try {
      JSON.parse(text); // which says where it is none
      await what();
    } catch (err) {
      setError(err as Error);
    }
  };
  const look = () => attempt(async () => setPlan({ of: text, is: await call("dryRunPolicy", { path, text }) }));
  const stage = () => attempt(async () => {
    const waves = await call("stageRevision", { path, text });
    setStaged(waves.parent_revision_id === head.id ? "Staged. No node is sent it until it is promoted."
      : "Staged upon a newer head than the one that was planned. Plan again, to see what it would undo, before you promote it; or abort it.");
    changed();
  });
  return (
    <Part title="Draft" note="the next revision, as JSON">
      <label class="unseen" for="draft">The draft</label>
      <textarea id="draft" class="code" rows={12} spellcheck={false} value={text} onInput={(e) => setText(e.currentTarget.value)} />
      <div class="row">
        <button type="button" onClick={look}>Plan</button>
        {may.write(policy.id) && <button type="button" class="primary" disabled={plan?.of !== text} title={plan?.of !== text ? "See first what it would do" : ""} onClick={stage}>Stage</button>}
        <span role="status">{staged}</span>
        <Command text={`edict policy plan -f ${policy.slug}.yaml${projectFlag.value}`} />
      </div>
      {head.id !== base.head && <p class="failure" role="status">There is a newer head than the one that this draft began with: {head.created_by} published <code>{head.id.slice(0, 8)}</code>. Plan shows what the draft would undo of it. <button type="button" onClick={begin}>Begin with it instead</button></p>}
      <Failure error={error} />
      {plan?.of === text && <Plan of={plan.is} />}
    </Part>
  );
}

function Plan({ of }: { of: Schemas["DryRun"] }) {
  const f = of.flows;
  return (
    <div class="plan" aria-live="polite">
      <p>It would match {count(of.matched_node_ids.length)} nodes.
        {f && <> Of {count(f.compared)} kinds of flows{f.sampled && " (a sample)"}, <b>{count(f.denied)}</b> would be denied that are allowed, <b>{count(f.allowed)}</b> allowed that are denied, {count(f.altered)} altered.</>}</p>
      <DiffLines of={of.rule_diff} />
      {of.warnings.length > 0 && <ul class="warnings">{of.warnings.map((w, i) => <li key={i}><code>{w.code}</code> {w.detail}</li>)}</ul>}
      {f && f.examples.length > 0 && (
        <Table caption="Some of the flows that would change" heads={["Node", "Flow", "Now", "Then"]}>
          {f.examples.map((x, i) => (
            <tr key={i}><td><NodeLink id={x.node_id} /></td><td>{x.direction} {x.protocol} {x.port} · {x.peer}</td><td><Verdict is={x.before.verdict} /></td><td><Verdict is={x.after.verdict} /></td></tr>
          ))}
        </Table>
      )}
    </div>
  );
}

/** A verdict about a flow. */
export function Verdict({ is }: { is: string }) {
  return <Tag is={is === "allow" ? "good" : is === "deny" ? "bad" : "accent"}>{is}</Tag>;
}
