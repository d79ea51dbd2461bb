package projector

import (
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
	p := v.p.state.admission.byID[id]
	if p == nil || p.document == nil {
		return AdmissionPolicy{}, false
	}
	return p.info(), true
}

// AdmissionHolders finds who has a document's name and who its priority, at
// its level and owner; "" where nobody has.
func (v *View) AdmissionHolders(d policy.AdmissionPolicy) (name, priority policy.AdmissionPolicyID) {
	byName, byPriority := admissionTerms(&d)
	if p := v.p.state.admission.names[byName]; p != nil {
		name = p.id
	}
	if p := v.p.state.admission.priorities[byPriority]; p != nil {
		priority = p.id
	}
	return name, priority
}

// AdmissionSince lists the admission policies that changed after sequence seq,
// each as it is now, deleted ones too, oldest change first; and the sequence of
// the last change.
func (v *View) AdmissionSince(seq uint64) (changed []AdmissionPolicy, last uint64) {
	for _, p := range v.p.state.admission.since(seq) {
		changed = append(changed, p.info())
	}
	return changed, v.p.state.admission.last()
}

// AdmissionVersion is the sequence of the last change of an admission policy
// that the fold has made. It takes no lock.
func (p *Projector) AdmissionVersion() uint64 { return p.admissionSeq.Load() }
