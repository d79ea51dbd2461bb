package projector

import (
	"github.com/google/uuid"

	"github.com/edictdev/edict/policy"
)

// admissionFold applies events about admission policies.
type admissionFold struct{ *fold }

// admissionState holds the admission policies. Names and priorities are unique
// per level, and per owner at the levels that have owners.
type admissionState struct {
	byID       map[policy.AdmissionPolicyID]*admissionPolicy
	names      map[admissionTerm]*admissionPolicy
	priorities map[admissionTerm]*admissionPolicy
	live       int
	// changes are the ids that changed, by sequence; only the last of an id
	// counts.
	changes []changed[policy.AdmissionPolicyID]
}

type admissionTerm struct {
	level    policy.Level
	owner    string
	name     string
	priority int32
}

// admissionPolicy is what the fold knows of an id. A deleted one remembers its
// last event; document is nil.
type admissionPolicy struct {
	id        policy.AdmissionPolicyID
	document  *policy.AdmissionPolicy // never changed once it is here
	seq       uint64                  // of the event that gave the present facts
	event     uuid.UUID               // its id
	created   int64                   // unix ns, the log's
	updated   int64                   // unix ns, the log's
	createdBy string                  // who wrote the document
}

func newAdmissionState() admissionState {
	return admissionState{
		byID:       map[policy.AdmissionPolicyID]*admissionPolicy{},
		names:      map[admissionTerm]*admissionPolicy{},
		priorities: map[admissionTerm]*admissionPolicy{},
	}
}

func admissionTerms(d *policy.AdmissionPolicy) (name, priority admissionTerm) {
	level, owner := d.Scope()
	return admissionTerm{level: level, owner: owner, name: d.Name}, admissionTerm{level: level, owner: owner, priority: d.Priority}
}

// put makes p the holder of its document's name and priority, in place of what
// it held before.
func (a *admissionState) put(p *admissionPolicy, document *policy.AdmissionPolicy) {
	if p.document != nil {
		name, priority := admissionTerms(p.document)
		delete(a.names, name)
		delete(a.priorities, priority)
		a.live--
	}
	if document != nil {
		name, priority := admissionTerms(document)
		a.names[name], a.priorities[priority] = p, p
		a.live++
	}
	p.document = document
	a.byID[p.id] = p
}

func (p *admissionPolicy) changedAt() uint64 { return p.seq }

func (a *admissionState) note(p *admissionPolicy) {
	a.changes = noteChange(a.changes, a.byID, p.seq, p.id)
}

// since are those that changed after seq, each once, oldest first.
func (a *admissionState) since(seq uint64) []*admissionPolicy {
	return changedSince(a.changes, a.byID, seq)
}

// last is the sequence of the last change.
func (a *admissionState) last() uint64 { return lastChange(a.changes) }

// judgeAdmission accepts a document for a policy that is at the version the event
// expects, if nobody else has its name or priority. p is nil where there never was
// such a policy.
func (j *judge) judgeAdmission(ev policy.AdmissionPolicyUpdated, fault *policy.DecodeError) (p *admissionPolicy, v Verdict) {
	p = j.admission.byID[ev.Policy]
	switch {
	case p != nil && p.event == ev.ID:
		return p, duplicate
	case j.applied(toAdmission(ev.Policy, ev.ID)):
		return p, staleAdmission(ev.Policy, ev.ID)
	case fault != nil:
		return p, invalid(fault)
	}
	if v, bad := expectedFault(p, ev.Policy, ev.Expected); bad {
		return p, v
	}
	name, priority := admissionTerms(&ev.Document)
	if holder := j.admission.names[name]; holder != nil && holder != p {
		return p, reject(CodeNameTaken, "the name %q is used by policy %s at this level: choose another", ev.Document.Name, holder.id)
	}
	if holder := j.admission.priorities[priority]; holder != nil && holder != p {
		return p, reject(CodePriorityTaken, "priority %d is used by policy %s at this level: choose another", ev.Document.Priority, holder.id)
	}
	return p, Verdict{}
}

func (f admissionFold) admissionPolicyUpdated(ev policy.AdmissionPolicyUpdated, fault *policy.DecodeError) Verdict {
	p, v := f.judgeAdmission(ev, fault)
	if !v.accepted() {
		return v
	}
	if p == nil {
		p = &admissionPolicy{id: ev.Policy}
	}
	if p.document == nil {
		p.created = f.time
	}
	p.createdBy = ev.CreatedBy
	f.putAdmission(p, ev.ID, &ev.Document)
	return v
}

// judgeAdmissionDeletion accepts the deletion of a policy that is at the version
// the event expects. One of a policy that is not there is a duplicate.
func (j *judge) judgeAdmissionDeletion(ev policy.AdmissionPolicyDeleted, fault *policy.DecodeError) (p *admissionPolicy, v Verdict) {
	p = j.admission.byID[ev.Policy]
	gone := p == nil || p.document == nil
	switch {
	case p != nil && p.event == ev.ID:
		return p, duplicate
	case !gone && j.applied(toAdmission(ev.Policy, ev.ID)):
		return p, staleAdmission(ev.Policy, ev.ID)
	case fault != nil:
		return p, invalid(fault)
	case gone:
		return p, duplicate
	case ev.Expected != nil && *ev.Expected != p.seq:
		return p, movedOn(p, *ev.Expected)
	}
	return p, Verdict{}
}

func (f admissionFold) admissionPolicyDeleted(ev policy.AdmissionPolicyDeleted, fault *policy.DecodeError) Verdict {
	p, v := f.judgeAdmissionDeletion(ev, fault)
	if !v.accepted() {
		f.noteDuplicate(toAdmission(ev.Policy, ev.ID), v)
		return v
	}
	p.createdBy = ""
	f.putAdmission(p, ev.ID, nil)
	return v
}

// expectedFault is the compare-and-set of an admission policy.
func expectedFault(p *admissionPolicy, id policy.AdmissionPolicyID, expected *uint64) (Verdict, bool) {
	live := p != nil && p.document != nil
	switch {
	case expected == nil:
	case *expected == 0 && live:
		return reject(CodePolicyIDUsed, "policy id %s is in use: choose another, or name its version %d", id, p.seq), true
	case *expected != 0 && !live:
		return reject(CodeRevisionConflict, "there is no policy %s: it was deleted, or never made", id), true
	case *expected != 0 && p.seq != *expected:
		return movedOn(p, *expected), true
	}
	return Verdict{}, false
}

func movedOn(p *admissionPolicy, expected uint64) Verdict {
	return reject(CodeRevisionConflict, "policy %s is at version %d, not %d: read it, then send the change again", p.id, p.seq, expected)
}

func staleAdmission(id policy.AdmissionPolicyID, event uuid.UUID) Verdict {
	return reject(CodeStaleEvent, "event %s of policy %s was applied before and a newer one followed: publish a new event", event, id)
}

// putAdmission gives a policy its present document, nil for none.
func (f admissionFold) putAdmission(p *admissionPolicy, event uuid.UUID, document *policy.AdmissionPolicy) {
	p.seq, p.event, p.updated = f.seq, event, f.time
	f.admission.put(p, document)
	f.admission.note(p)
	f.noteApplied(toAdmission(p.id, event))
	f.set(admissionKey(p.id), appendAdmission(nil, p))
}

func appendAdmission(b []byte, p *admissionPolicy) []byte {
	b = appendU64(append(appendU64(b, p.seq), p.event[:]...), uint64(p.created))
	b = appendText(appendU64(b, uint64(p.updated)), p.createdBy)
	if p.document == nil {
		return append(b, 0)
	}
	return policy.AppendAdmissionPolicy(append(b, 1), *p.document)
}

func readAdmission(id policy.AdmissionPolicyID, b []byte) (*admissionPolicy, error) {
	r := reader{b: b}
	p := &admissionPolicy{id: id, seq: r.u64(), event: r.id(), created: r.time(), updated: r.time(), createdBy: r.text()}
	if live := r.u8() == 1; !live || r.err != nil {
		return p, r.err
	}
	d, err := policy.DecodeAdmissionPolicy(r.b)
	if err != nil {
		return nil, errRecord
	}
	p.document = &d
	return p, nil
}

// admission reads the admission policies from the store.
func (l *loader) admission() error {
	a := &l.state.admission
	err := l.scan(keyAdmission, func(k, v []byte) error {
		p, err := readAdmission(policy.AdmissionPolicyID(k), v)
		if err != nil {
			return err
		}
		document := p.document
		p.document = nil // it holds nothing yet
		a.put(p, document)
		a.changes = append(a.changes, changed[policy.AdmissionPolicyID]{p.seq, p.id})
		return nil
	})
	sortChanges(a.changes)
	return err
}
