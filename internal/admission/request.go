package admission

import "time"

// Request is what is asked to be admitted. The payload is read, never changed.
type Request struct {
	// ServiceType and Labels are what policies select by; see
	// [ServiceTypeOf] and [LabelsOf] for payloads that carry their own.
	ServiceType string
	Labels      map[string]string
	// Payload is a JSON object as [ParsePayload] or encoding/json decode it;
	// numbers are json.Number or float64.
	Payload map[string]any
	// UserID and TenantID say who asks. Empty: nobody known, so policies with
	// an owner do not apply.
	UserID   string
	TenantID string
	// Caller is who sent the request, where that is known and may be another than it
	// is asked for: a policy that runs out of time again and again is suspended for
	// the three of them together.
	Caller string
	// Fits, if set, says what keeps a payload from being what is asked for. The
	// payload itself fits; it is asked for those that policies patched.
	Fits func(payload map[string]any) []Misfit `json:"-"`
}

// Options vary an evaluation.
type Options struct {
	// Explain asks for Result.Steps: one for every policy of the snapshot.
	Explain bool
	// DryRun: nothing follows from the answer. The decision log says so.
	DryRun bool
}

// Status says what became of an admitted request.
type Status string

// The outcomes of a request that passed.
const (
	Approved Status = "APPROVED" // the payload is as it came, numbers by value
	Modified Status = "MODIFIED" // a policy changed it
)

// Result is an admitted request. When the request is refused, the result beside
// the error holds nothing but its version, Judges, Steps and Shadows.
type Result struct {
	// Payload may share parts with the request's: read it, do not change it.
	Payload         map[string]any
	ServiceProvider ServiceProvider
	Status          Status
	// SnapshotVersion is the version of the policies that decided.
	SnapshotVersion uint64
	// Patches are what policies changed of a request that says what fits, and
	// what of their patches was left out, in the order of the chain.
	Patches []Patch
	// Steps explain: every policy of the snapshot, in the order of the chain.
	Steps []Step
	// Judges are the policies that were asked and count, in the order in which they
	// were, beside an error too. None is known of a chain that had to be left behind.
	Judges []Judge
	// Shadows are the steps of the shadow policies that matched, asked for or
	// not, beside an error too.
	Shadows []Step
}

// ServiceProvider is the provider chosen so far and what it is chosen from.
type ServiceProvider struct {
	Value       string              `json:"value"` // empty: none
	Constraints ProviderConstraints `json:"constraints"`
}

// ProviderConstraints bound the choice: a provider stands in the allow list, if
// there is one, and matches every pattern (RE2, unanchored).
type ProviderConstraints struct {
	AllowList []string `json:"allow_list,omitempty"`
	Patterns  []string `json:"patterns,omitempty"`
}

// Outcome is what one policy did in a chain.
type Outcome string

// The outcomes of a step.
const (
	OutcomeUnmatched Outcome = "unmatched"  // the policy does not apply; Reason says why
	OutcomeNotRun    Outcome = "not_run"    // the chain had ended before
	OutcomeNoOpinion Outcome = "no_opinion" // undefined, or no entry point
	OutcomeApplied   Outcome = "applied"
	OutcomeRejected  Outcome = "rejected"
	OutcomeConflict  Outcome = "conflict"
	OutcomeError     Outcome = "error"
	OutcomeTimeout   Outcome = "timeout"
)

// Step explains one policy's part in a chain.
type Step struct {
	PolicyID   string `json:"policy_id"`
	PolicyName string `json:"policy_name"`
	Level      Level  `json:"level"`
	Priority   int    `json:"priority"`
	Mode       Mode   `json:"mode"`
	Matched    bool   `json:"matched"`
	// MatchedAfter is the id of the policy whose patch made this one match.
	MatchedAfter string  `json:"matched_after,omitempty"`
	Outcome      Outcome `json:"outcome"`
	// Reason says why the policy did not match, or what went wrong.
	Reason string `json:"reason,omitempty"`
	// Decision is what the policy answered.
	Decision any `json:"decision,omitempty"`
	// Constraints are those that the policy added, by path.
	Constraints map[string]any `json:"constraints,omitempty"`
	// Diff is the effect of the patch as a JSON patch (RFC 6902).
	Diff []Change `json:"diff,omitempty"`
	// Dropped is what of the patch was left out, because the request cannot have
	// it: JSON pointers.
	Dropped []string `json:"dropped,omitempty"`
	// Provider is the provider that the policy chose.
	Provider string        `json:"provider,omitempty"`
	Took     time.Duration `json:"took_ns"`

	version uint64 // log sequence of the policy's last change
	owned   bool   // the policy has an owner
}

// Change is one operation of a JSON patch (RFC 6902): add, remove or replace.
type Change struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	From  any    `json:"old,omitempty"` // the value before; not part of RFC 6902
	Value any    `json:"value,omitempty"`
}
