package admission

import "slices"

// Judge is the part of a policy that was asked about a request, and counts.
type Judge struct {
	RecordedPolicy
	recordedPlace
	Outcome Outcome `json:"outcome"`
}

// judged writes down how a policy's part ended.
func (c *chain) judged(by *Compiled, outcome Outcome) {
	if c.judges == nil {
		c.judges = make([]Judge, 0, len(c.policies))
	}
	p := &by.policy
	c.judges = append(c.judges, Judge{RecordedPolicy{p.ID, p.Name}, recordedPlace{p.Level, p.owned(), c.snapshot.Changed(p.ID)}, outcome})
}

// RecordedShadow is what a shadow policy would have done.
type RecordedShadow struct {
	RecordedPolicy
	recordedPlace
	Outcome Outcome `json:"outcome"`
	Reason  string  `json:"reason,omitempty"`
}

// recordedPlace says which policy it was by then, and whose.
type recordedPlace struct {
	Level Level `json:"level,omitempty"`
	// Owned: its owner is the requester, the tenant or the user as the level says.
	Owned bool `json:"owned,omitempty"`
	// Version is the log sequence of the policy's last change before the decision.
	Version uint64 `json:"version,omitempty"`
}

// owned says whether the policy has the owner that its level may have; it then judges
// nobody else.
func (p *Policy) owned() bool {
	return p.Level == Tenant && p.TenantID != "" || p.Level == User && p.UserID != ""
}

// maxRecorded is how many of the policies that judged, and how many shadow policies, a
// record names: it must stay much smaller than a message.
const maxRecorded = 100

// judges are the policies that judged, in the order in which they were asked, and how
// many more there were. The one that is blamed is to blame, whatever it seemed to do when
// it was asked.
func (r *Record) judges(of []Judge) {
	r.PoliciesLeftOut = max(0, len(of)-maxRecorded)
	r.Policies = slices.Clone(of[:len(of)-r.PoliciesLeftOut])
	for i := range r.Policies {
		if r.Policy != nil && r.Policy.ID == r.Policies[i].ID {
			r.Policies[i].Outcome = Outcome(r.Outcome)
		}
	}
}

// shadows are what the shadow policies would have done.
func (r *Record) shadows(steps []Step) {
	r.ShadowsLeftOut = max(0, len(steps)-maxRecorded)
	for _, s := range steps[:len(steps)-r.ShadowsLeftOut] {
		place := recordedPlace{s.Level, s.owned, s.version}
		r.Shadows = append(r.Shadows, RecordedShadow{RecordedPolicy{s.PolicyID, s.PolicyName}, place, s.Outcome, s.Reason})
	}
}
