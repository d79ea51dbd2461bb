// Texts that would do something if they became markup, and the places that take them.
import { ask, given, project } from "./browser.mjs";

const payloads = [
  "<script>window.attacked=1</script>",
  "<img src=x onerror=window.attacked=1>",
  "<svg onload=window.attacked=1>",
  "\"><script>window.attacked=1</script>",
  "'><img src=x onerror=window.attacked=1>",
  "javascript:window.attacked=1",
  "</title><script>window.attacked=1</script>",
  "<iframe srcdoc='<script>parent.attacked=1</script>'>",
  "<a href=javascript:window.attacked=1>x</a>",
  "{{constructor.constructor('window.attacked=1')()}}",
  "x; edict log compact --yes $(id)", // in a command that somebody copies
];

const uuid = () => crypto.randomUUID();
const selector = { source: "env=hostile", destination: "env=hostile" };
const rules = [{ action: "allow", protocol: "tcp", source_cidr: "10.0.0.0/8", destination_cidr: "10.0.0.0/8" }];

// Each place takes a text, and says whether it was taken.
const places = {
  displayName: (text, i) => ask(`${project}/policies`, { method: "POST", body: { slug: `hostile-${i}`, display_name: text, selector, rules } }),
  abortReason: async (text, i) => {
    const p = await ask(`${project}/policies`, { method: "POST", body: { slug: `hostile-abort-${i}`, selector, rules } });
    const path = `${project}/policies/${p.id}`;
    await ask(`${path}/stage`, { method: "POST", body: { selector, rules: [{ ...rules[0], protocol: "udp" }] } });
    await ask(`${path}/abort`, { method: "POST", body: { reason: text } });
  },
  nodeReason: async (text, i) => {
    await ask(`${project}/nodes/hostile-${i}`, { method: "PUT", body: { labels: { env: "hostile" }, addresses: [] } });
    const state = await ask(`/v1/nodes/hostile-${i}/state`);
    await ask(`/v1/nodes/hostile-${i}/applied`, { method: "POST", body: { version: 1, fingerprint: state.policy?.fingerprint ?? `${"A".repeat(43)}=`, outcome: "refused", reason: text } });
  },
  admissionName: (text, i) => ask("/api/v1/policies", { method: "POST", body: { name: text.slice(0, 60), description: text, policy_type: "Global", service_type: `hostile-${i}`, priority: 100 + i, mode: "shadow", rego_code: `package hostile${i}` } }),
  admissionReason: async (text, i) => {
    await ask("/api/v1/policies", { method: "POST", body: { name: `refuses-${i}`, policy_type: "Global", service_type: `refused-${i}`, priority: 200 + i, rego_code: `package refused${i}\n\nresult := {"reject": true, "reason": ${JSON.stringify(text)}}` } });
    await ask("/api/v1/engine/evaluate", { method: "POST", body: { request_payload: { service_type: `refused-${i}`, note: text }, user_id: text, tenant_id: text } });
  },
  principalName: (text, i) => ask(`/v1/access/principals/hostile-${i}`, { method: "PUT", body: { kind: "service", display_name: text } }),
  correlation: (text, i) => fetch(`${given.base}${project}/nodes/hostile-c${i}`, { method: "PUT", headers: { Authorization: `Bearer ${given.token}`, "Content-Type": "application/json", "X-Correlation-Id": text }, body: JSON.stringify({ labels: { env: "hostile" } }) }),
  serviceType: (text) => ask("/api/v1/engine/evaluate", { method: "POST", body: { request_payload: { service_type: text, metadata: { labels: { [text]: text } } } } }),
};

/** Puts every payload into every place, and says how many attempts there are with those in addresses. */
export async function plant() {
  let n = 0;
  for (const put of Object.values(places)) {
    for (const [i, text] of payloads.entries()) {
      n++;
      await put(text, i).catch(() => undefined); // refused is as good
    }
  }
  return n + 5 * payloads.length;
}

/** The views that show what was put there, and addresses that are hostile themselves. */
export function* attempts() {
  yield* ["fleet", "policies", "nodes?labels=env%3Dhostile", "live", "admission", "workers", "time"];
  for (let i = 0; i < payloads.length; i++) yield `nodes/hostile-${i}`;
  for (const text of payloads) {
    const t = encodeURIComponent(text);
    yield `nodes/${t}?labels=${t}&project=${t}`;
    yield `nodes?state=${t}&project=${t}`;
    yield `policies/${t}?project=${t}`;
    yield `admission?decided=${t}`;
    yield `live?type=${t}&node=${t}&policy=${t}&from=${t}&nonce=${uuid()}`;
  }
}
