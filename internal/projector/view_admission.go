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

// AdmissionPolicy returns an admission policy that exists now.
func (v *View) AdmissionPolicy(id policy.AdmissionPolicyID) (AdmissionPolicy, bool) {
	p := v.m.state.admission.byID[id]
	if p == nil || p.document == nil {
		return AdmissionPolicy{}, false
	}
	return p.info(), true
}

// AdmissionPolicies lists the admission policies that exist now and that keep
// lets pass, by id.
func (v *View) AdmissionPolicies(keep func(p AdmissionPolicy) bool) []AdmissionPolicy {
	var out []AdmissionPolicy
	for _, p := range v.m.state.admission.byID {
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

// AdmissionHolders finds who has a document's name and who its priority, at
// its level and owner; "" where nobody has.
func (v *View) AdmissionHolders(d policy.AdmissionPolicy) (name, priority policy.AdmissionPolicyID) {
	byName, byPriority := admissionTerms(&d)
	if p := v.m.state.admission.names[byName]; p != nil {
		name = p.id
	}
	if p := v.m.state.admission.priorities[byPriority]; p != nil {
		priority = p.id
	}
	return name, priority
}

// AdmissionSince lists the admission policies that changed after sequence seq,
// each as it is now, deleted ones too, oldest change first; and the sequence of
// the last change.
func (v *View) AdmissionSince(seq uint64) (changed []AdmissionPolicy, last uint64) {
	for _, p := range v.m.state.admission.since(seq) {
		changed = append(changed, p.info())
	}
	return changed, v.m.state.admission.last()
}

// AdmissionVersion is the sequence of the last change of an admission policy
// that the fold has made. It takes no lock.
func (m *model) AdmissionVersion() uint64 { return m.admissionSeq.Load() }
