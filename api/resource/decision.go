package resource

import (
	"encoding/json"
	"time"
)

// Decision is what admission policies decided about one request, as the decision log
// keeps it.
type Decision struct {
	Seq             uint64            `json:"seq" doc:"Its sequence in the decision log."`
	DecisionID      string            `json:"decision_id" doc:"Its id, a UUID."`
	Time            time.Time         `json:"time" doc:"When the request came, by the worker's clock."`
	Worker          string            `json:"worker" doc:"Who decided."`
	SnapshotVersion uint64            `json:"snapshot_version" doc:"Which set of policies decided: the log sequence of its last change."`
	DryRun          bool              `json:"dry_run,omitempty" doc:"Nothing followed from it."`
	ServiceType     string            `json:"service_type" doc:"What policies were chosen by."`
	Labels          map[string]string `json:"labels,omitzero" doc:"Likewise, where they are not those of the payload."`
	UserID          string            `json:"user_id,omitempty" doc:"Who asked."`
	TenantID        string            `json:"tenant_id,omitempty" doc:"For which tenant."`
	RequestPayload  json.RawMessage   `json:"request_payload" doc:"What was asked; null where it was masked."`
	Outcome         string            `json:"outcome" doc:"What became of it."`
	ResultPayload   json.RawMessage   `json:"result_payload,omitempty" doc:"What came out, where policies changed it."`
	ServiceProvider *Provider         `json:"service_provider,omitempty" doc:"The provider of a request that passed."`
	Policy          *Deciding         `json:"policy,omitempty" doc:"Who refused, or failed."`
	Reason          string            `json:"reason,omitempty" doc:"What was said then."`
	Policies        []Judgement       `json:"policies,omitempty" doc:"The policies that judged the request, in the order in which they were asked; of those that who reads may see."`
	PoliciesLeftOut int               `json:"policies_left_out,omitempty" doc:"How many more judged than are named."`
	Shadows         []ShadowDecision  `json:"shadows,omitempty" doc:"What the shadow policies that matched would have done; of those that who reads may see."`
	ShadowsLeftOut  int               `json:"shadows_left_out,omitempty" doc:"How many more matched than are named."`
	TookNS          uint64            `json:"took_ns" doc:"How long it took, in nanoseconds."`
	Masked          []string          `json:"masked,omitempty" doc:"JSON pointers to what was taken out."`
}

// Judgement is a policy's part in a decision.
type Judgement struct {
	ID      string `json:"id" doc:"Its id."`
	Name    string `json:"name" doc:"Its name."`
	Level   string `json:"level,omitempty" doc:"Its level."`
	Owned   bool   `json:"owned,omitempty" doc:"Its owner was who asked: the tenant or the user, as the level says."`
	Version uint64 `json:"version,omitempty" doc:"Its version by then: the log sequence of its last change."`
	Outcome string `json:"outcome" doc:"What came of it: applied, no_opinion, or how it ended the request."`
}

// DecisionExplanation is a decision, what each of the policies that judged it says of its
// request as it was then, and what the present policies say.
type DecisionExplanation struct {
	Decision Decision         `json:"decision" doc:"The decision."`
	Policies []DecidingPolicy `json:"policies" doc:"The policies that took part, shadow policies too, and whether they are still what they were."`
	Then     *Verdict         `json:"then,omitempty" doc:"What the policies that took part say of the request, as they were then."`
	Now      *Verdict         `json:"now,omitempty" doc:"What the present policies say of it."`
	Unjudged string           `json:"unjudged,omitempty" doc:"Why then is absent, and now where it is too."`
}

// DecidingPolicy is a policy that took part in a decision, then and now.
type DecidingPolicy struct {
	ID      string `json:"id" doc:"Its id."`
	Name    string `json:"name" doc:"Its name."`
	Version uint64 `json:"version,omitempty" doc:"Its version by then: the log sequence of its last change."`
	Present uint64 `json:"present_version,omitempty" doc:"Its present version; absent where it is gone."`
	State   string `json:"state" doc:"Whether it is what it was."`
}

// The states of a policy that took part in a decision.
const (
	PolicyUnchanged = "unchanged"
	PolicyChanged   = "changed"
	PolicyGone      = "gone"
	PolicyUnknown   = "unknown" // the decision does not say which version judged
)

// Verdict is what a set of admission policies says of a request.
type Verdict struct {
	Status  string       `json:"status" doc:"APPROVED, MODIFIED, or the code of the problem that the request would get."`
	Policy  *Deciding    `json:"policy,omitempty" doc:"Who refuses, or fails."`
	Detail  string       `json:"detail,omitempty" doc:"What is said then."`
	Explain *Explanation `json:"explain,omitempty" doc:"What each policy of the set says; absent where the request cannot be evaluated."`
}

// ShadowDecision is what a shadow policy would have done.
type ShadowDecision struct {
	ID      string `json:"id" doc:"Its id."`
	Name    string `json:"name" doc:"Its name."`
	Level   string `json:"level,omitempty" doc:"Its level."`
	Owned   bool   `json:"owned,omitempty" doc:"Its owner was who asked: the tenant or the user, as the level says."`
	Version uint64 `json:"version,omitempty" doc:"Its version by then: the log sequence of its last change."`
	Outcome string `json:"outcome" doc:"What it would have done."`
	Reason  string `json:"reason,omitempty" doc:"What it said."`
}
