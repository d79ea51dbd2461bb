import { useState } from "preact/hooks";
import { call, Refused, type Schemas } from "../api/call";
import { may } from "../state/who";
import { colour } from "../screens/admission";
import { Failure, Part, Tag } from "./bits";

const example = JSON.stringify({ service_type: "network-policy", slug: "web", rules: [{ action: "allow", protocol: "tcp", ports: { from: 22, to: 25 } }] }, null, 2);

const draft = `package dcm.policy.draft

result := {"reject": true, "reason": "not on 23"} if {
	some rule in input.current_request_payload.rules
	rule.ports.from <= 23
	rule.ports.to >= 23
}
`;

type Step = { policy_id: string; policy_name: string; level: string; outcome: string; reason?: string; matched: boolean };
type Said = { status: string; detail?: string; steps: Step[]; payload?: unknown };

/** Tries a request against the present policies, or against one that is drafted here. */
export function Trial() {
  const [against, setAgainst] = useState<"present" | "draft">("present");
  const [request, setRequest] = useState(example);
  const [rego, setRego] = useState(draft);
  const [said, setSaid] = useState<Said>();
  const [error, setError] = useState<Error>();
  const run = async () => {
    setError(undefined);
    setSaid(undefined);
    try {
      setSaid(against === "present" ? await present(payloadOf(request)) : await drafted(payloadOf(request), rego));
    } catch (err) {
      setError(err as Error);
    }
  };
  return (
    <Part title="Try a request">
      <div class="tabs" role="group" aria-label="Against">
        <button type="button" aria-pressed={against === "present"} onClick={() => setAgainst("present")}>present policies</button>
        {may.administer.value && <button type="button" aria-pressed={against === "draft"} onClick={() => setAgainst("draft")}>a draft</button>}
      </div>
      <div class="columns">
        <label>The request's payload<textarea rows={10} spellcheck={false} value={request} onInput={(e) => setRequest(e.currentTarget.value)} /></label>
        {against === "draft" && <label>The draft, in Rego<textarea rows={10} spellcheck={false} value={rego} onInput={(e) => setRego(e.currentTarget.value)} /></label>}
      </div>
      <div class="row"><button type="button" class="primary" onClick={run}>Try</button></div>
      <Failure error={error} />
      {said && <Outcome of={said} />}
    </Part>
  );
}

// Payload is an object as it was typed. The plane is sent the text: written anew it would have other numbers, and of a
// member that stands there twice, one.
interface Payload {
  text: string;
  is: Record<string, unknown>;
}

function payloadOf(text: string): Payload {
  const is: unknown = JSON.parse(text);
  if (typeof is !== "object" || is === null || Array.isArray(is)) throw new Error('A payload is an object in JSON, such as {"service_type": "network-policy"}.');
  return { text, is: is as Record<string, unknown> };
}

async function present(payload: Payload): Promise<Said> {
  try {
    const a = await call("evaluate", { query: { explain: "full" }, text: `{"request_payload": ${payload.text}}`, verbatim: true });
    return { status: a.status.toLowerCase(), steps: stepsOf(a.explain), payload: a.status === "MODIFIED" ? a.request_payload : undefined };
  } catch (err) {
    if (!(err instanceof Refused) || !err.problem.explain) throw err;
    return { status: err.problem.code.replaceAll("_", " "), detail: err.problem.detail ?? "", steps: stepsOf(err.problem.explain) };
  }
}

const stepsOf = (e: Schemas["Explanation"] | undefined) => (e?.steps ?? []) as unknown as Step[];

// drafted has the plane check the draft and run one test case, and write nothing.
async function drafted({ text, is }: Payload, rego: string): Promise<Said> {
  const name = `draft-${Math.random().toString(36).slice(2, 10)}`; // browsers have random UUIDs at some addresses only
  const free = 1 + Math.floor(Math.random() * 1000);
  const body = { name, policy_type: "Global", priority: free, mode: "shadow", rego_code: rego, ...(typeof is.service_type === "string" && { service_type: is.service_type }) };
  const test = `{"name": "the request", "request": {"request_payload": ${text}}, "expect": {"status": "approved"}}`;
  try {
    await call("createAdmissionPolicy", { query: { dry_run: true }, text: `${JSON.stringify(body).slice(0, -1)}, "test_cases": [${test}]}` });
    return { status: "approved", steps: [] };
  } catch (err) {
    if (!(err instanceof Refused) || err.problem.code !== "tests_failed") throw err;
    const detail = (err.problem.errors?.[0]?.detail ?? err.problem.detail ?? "").replace(/^the request: /, "").replaceAll(name, "the draft");
    return detail.startsWith("is MODIFIED") ? { status: "modified", steps: [] } : { status: "not approved", detail, steps: [] };
  }
}

function Outcome({ of }: { of: Said }) {
  return (
    <div class="answer" aria-live="polite">
      <p class="figure"><Tag is={of.status === "approved" ? "good" : of.status === "modified" ? "accent" : "bad"}>{of.status}</Tag> {of.detail}</p>
      {of.steps.map((s) => <p key={s.policy_id}><Tag is={colour(s.outcome)}>{s.outcome.replaceAll("_", " ")}</Tag> <b>{s.policy_name}</b> <span class="muted">{s.level}{s.reason && `: ${s.reason}`}</span></p>)}
      {of.payload !== undefined && <pre tabIndex={0}>{JSON.stringify(of.payload, null, 2)}</pre>}
    </div>
  );
}
