package projector

import (
	"cmp"
	"slices"
	"time"

	"github.com/edictdev/edict/policy"
)

// AdmissionPolicy is an admission policy as the fold has it. Document is nil
// once it is deleted; it is shared and must not be changed.
type AdmissionPolicy struct {
	ID                   policy.AdmissionPolicyID
	Document             *policy.AdmissionPolicy
	Version              uint64 // log sequence of the event that gave the present document, or ended it
	CreatedBy            string
	CreatedAt, UpdatedAt time.Time // log timestamps
}

func (p *admissionPolicy) info() AdmissionPolicy {
	return AdmissionPolicy{
		ID: p.id, Document: p.document, Version: p.seq, CreatedBy: p.createdBy,
		CreatedAt: logTime(p.created), UpdatedAt: logTime(p.updated),
	}
}

// Admission is what a view has of admission policies.
type Admission struct{ s *admissionState }

// Admission shows the admission policies, as long as the view lasts.
func (v *View) Admission() Admission { return Admission{&v.m.state.admission} }

// Policy returns an admission policy that exists now.
func (a Admission) Policy(id policy.AdmissionPolicyID) (AdmissionPolicy, bool) {
	p := a.s.byID[id]
	if p == nil || p.document == nil {
		return AdmissionPolicy{}, false
	}
	return p.info(), true
}

// Policies lists those that exist now and that keep lets pass, by id.
func (a Admission) Policies(keep func(p AdmissionPolicy) bool) []AdmissionPolicy {
	var out []AdmissionPolicy
	for _, p := range a.s.byID {
		if p.document == nil {
			continue
		}
		if info := p.info(); keep(info) {
			out = append(out, info)
		}
	}
	slices.SortFunc(out, func(a, b AdmissionPolicy) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Holders finds who has a document's name and who its priority, at
// its level and owner; "" where nobody has.
func (a Admission) Holders(d policy.AdmissionPolicy) (name, priority policy.AdmissionPolicyID) {
	byName, byPriority := admissionTerms(&d)
	if p := a.s.names[byName]; p != nil {
		name = p.id
	}
	if p := a.s.priorities[byPriority]; p != nil {
		priority = p.id
	}
	return name, priority
}

// Since lists those that changed after sequence seq, each as it is now, deleted
// ones too, oldest change first; and the sequence of the last change.
func (a Admission) Since(seq uint64) (changed []AdmissionPolicy, last uint64) {
	for _, p := range a.s.since(seq) {
		changed = append(changed, p.info())
	}
	return changed, a.s.last()
}

// AdmissionVersion is the sequence of the last change of an admission policy
// that the fold has made. It takes no lock.
func (m *model) AdmissionVersion() uint64 { return m.admissionSeq.Load() }
