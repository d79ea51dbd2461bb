package projector

import (
	"cmp"
	"slices"

	"github.com/google/uuid"

	"github.com/edictdev/edict/policy"
)

// accessFold applies events about principals and their relations.
type accessFold struct{ *fold }

// accessState holds the principals and what each may do.
type accessState struct {
	byID map[policy.PrincipalID]*principal
	live int
	// bootstrap finds who has a bootstrap token, by its hash: in order, if several have.
	bootstrap map[[32]byte][]policy.PrincipalID
	// changes are the ids that changed, by sequence; only the last of an id
	// counts.
	changes []changed[policy.PrincipalID]
}

// principal is what the fold knows of an id. One that was removed, or that only
// relations name, has no document.
type principal struct {
	id        policy.PrincipalID
	document  *policy.Principal // never changed once it is here
	version   uint64            // sequence of the event that gave or ended the document
	seq       uint64            // of the last event that changed anything
	created   int64             // unix ns, the log's
	updated   int64             // unix ns, the log's
	createdBy string            // who wrote the document
	relations []grant           // by text. See bind
}

// grant is a relation that somebody gave.
type grant struct {
	relation policy.Relation
	seq      uint64
	by       string
}

func newAccessState() accessState {
	return accessState{byID: map[policy.PrincipalID]*principal{}, bootstrap: map[[32]byte][]policy.PrincipalID{}}
}

// put gives p its document, nil for none.
func (a *accessState) put(p *principal, document *policy.Principal) {
	if p.document != nil {
		a.live--
		for _, t := range p.document.Bootstrap {
			ids := a.bootstrap[t.Hash]
			if at, has := slices.BinarySearch(ids, p.id); has {
				ids = slices.Delete(ids, at, at+1)
			}
			if a.bootstrap[t.Hash] = ids; len(ids) == 0 {
				delete(a.bootstrap, t.Hash)
			}
		}
	}
	if document != nil {
		a.live++
		for _, t := range document.Bootstrap {
			ids := a.bootstrap[t.Hash]
			if at, has := slices.BinarySearch(ids, p.id); !has {
				a.bootstrap[t.Hash] = slices.Insert(ids, at, p.id)
			}
		}
	}
	p.document = document
	a.byID[p.id] = p
}

func (p *principal) changedAt() uint64 { return p.seq }

func (a *accessState) note(p *principal) { a.changes = noteChange(a.changes, a.byID, p.seq, p.id) }

// since are those that changed after seq, each once, oldest first.
func (a *accessState) since(seq uint64) []*principal { return changedSince(a.changes, a.byID, seq) }

// last is the sequence of the last change.
func (a *accessState) last() uint64 { return lastChange(a.changes) }

// judgeAccess says what is the same of every event about a principal: one that was
// applied before is a duplicate, and any other with a fault is invalid.
func (j *judge) judgeAccess(id policy.PrincipalID, event uuid.UUID, fault *policy.DecodeError) Verdict {
	switch {
	case j.applied(toPrincipal(id, event)):
		return duplicate
	case fault != nil:
		return invalid(fault)
	}
	return Verdict{}
}

// judgePrincipal accepts a document for a principal that is at the version the
// event expects. p is nil where there never was such a principal.
func (j *judge) judgePrincipal(ev policy.PrincipalUpdated, fault *policy.DecodeError) (p *principal, v Verdict) {
	p = j.access.byID[ev.Principal]
	live := p != nil && p.document != nil
	v = j.judgeAccess(ev.Principal, ev.ID, fault)
	switch {
	case !v.accepted():
		return p, v
	case ev.Expected == nil:
	case *ev.Expected == 0 && live:
		return p, reject(CodeRevisionConflict, "there is a principal %s, at version %d: choose another id, or name its version", ev.Principal, p.version)
	case *ev.Expected != 0 && !live:
		return p, reject(CodeRevisionConflict, "there is no principal %s: it was removed, or never made", ev.Principal)
	case *ev.Expected != 0 && p.version != *ev.Expected:
		return p, reject(CodeRevisionConflict, "principal %s is at version %d, not %d: read it, then send the change again", ev.Principal, p.version, *ev.Expected)
	}
	return p, Verdict{}
}

func (f accessFold) principalUpdated(ev policy.PrincipalUpdated, fault *policy.DecodeError) Verdict {
	p, v := f.judgePrincipal(ev, fault)
	if !v.accepted() {
		return v
	}
	if p == nil {
		p = &principal{id: ev.Principal}
	}
	if p.document == nil {
		p.created = f.time
	}
	p.version, p.updated, p.createdBy = f.seq, f.time, ev.CreatedBy
	f.keepConsumed(p.document, &ev.Document)
	f.access.put(p, &ev.Document)
	f.accessed(p, ev.ID)
	return Verdict{}
}

// judgePrincipalRemoval accepts the removal of a principal. That of one that is not
// there is a duplicate.
func (j *judge) judgePrincipalRemoval(ev policy.PrincipalRemoved, fault *policy.DecodeError) (p *principal, v Verdict) {
	p = j.access.byID[ev.Principal]
	v = j.judgeAccess(ev.Principal, ev.ID, fault)
	if gone := p == nil || p.document == nil && len(p.relations) == 0; gone && v.accepted() {
		v = duplicate
	}
	return p, v
}

func (f accessFold) principalRemoved(ev policy.PrincipalRemoved, fault *policy.DecodeError) Verdict {
	p, v := f.judgePrincipalRemoval(ev, fault)
	if !v.accepted() {
		f.noteDuplicate(toPrincipal(ev.Principal, ev.ID), v)
		return v
	}
	for _, g := range p.relations {
		f.unwrite(p, g)
	}
	p.version, p.updated, p.createdBy, p.relations = f.seq, f.time, "", nil
	f.access.put(p, nil)
	f.accessed(p, ev.ID)
	return Verdict{}
}

// judgeGrant accepts a relation that the principal does not have. One that it has
// makes the event a duplicate.
func (j *judge) judgeGrant(ev policy.RelationWritten, fault *policy.DecodeError) (p *principal, v Verdict) {
	p, _, found := j.findGrant(ev.Principal, j.bind(ev.Relation))
	v = j.judgeAccess(ev.Principal, ev.ID, fault)
	if found && v.accepted() {
		v = duplicate
	}
	return p, v
}

func (f accessFold) relationWritten(ev policy.RelationWritten, fault *policy.DecodeError) Verdict {
	p, v := f.judgeGrant(ev, fault)
	if !v.accepted() {
		f.noteDuplicate(toPrincipal(ev.Principal, ev.ID), v)
		return v
	}
	if p == nil {
		p = &principal{id: ev.Principal}
		f.access.put(p, nil)
	}
	relation := f.bind(ev.Relation)
	_, at, _ := f.findGrant(ev.Principal, relation)
	f.give(p, at, grant{relation, f.seq, ev.CreatedBy})
	f.accessed(p, ev.ID)
	return v
}

// judgeRevocation accepts that a relation is taken back which the principal has.
// One that it does not have makes the event a duplicate.
func (j *judge) judgeRevocation(ev policy.RelationRemoved, fault *policy.DecodeError) (p *principal, v Verdict) {
	p = j.access.byID[ev.Principal]
	v = j.judgeAccess(ev.Principal, ev.ID, fault)
	if has := p != nil && len(p.places(ev.Relation)) > 0; !has && v.accepted() {
		v = duplicate
	}
	return p, v
}

func (f accessFold) relationRemoved(ev policy.RelationRemoved, fault *policy.DecodeError) Verdict {
	p, v := f.judgeRevocation(ev, fault)
	if !v.accepted() {
		f.noteDuplicate(toPrincipal(ev.Principal, ev.ID), v)
		return v
	}
	f.take(p, ev.Relation)
	f.accessed(p, ev.ID)
	return v
}

// bind gives a relation to a node that names no project the one that owns the
// node now. Where nobody does it stays without, and allows nothing: whoever
// named the node first later would come to it.
func (s *state) bind(r policy.Relation) policy.Relation {
	if r.Whole() {
		return r
	}
	if n := s.nodes[r.Node]; n != nil {
		r.ID = n.project.id
	}
	return r
}

// places are where the relations of a principal stand that one means: of one to a node
// that names no project, whichever project's it is.
func (p *principal) places(r policy.Relation) (at []int) {
	if r.Whole() {
		if i, found := p.find(r); found {
			at = []int{i}
		}
		return at
	}
	for i, g := range p.relations {
		if g.relation.ID = uuid.Nil; g.relation == r {
			at = append(at, i)
		}
	}
	return at
}

// take takes back what a relation means.
func (f accessFold) take(p *principal, r policy.Relation) {
	for _, at := range slices.Backward(p.places(r)) {
		f.unwrite(p, p.relations[at])
		p.relations = slices.Delete(p.relations, at, at+1)
	}
}

// unwrite removes the record of a relation.
func (f accessFold) unwrite(p *principal, g grant) {
	f.key = appendRelationKey(f.key[:0], p.id, g.relation.String())
	f.delete(f.key)
}

// give inserts a relation where findGrant says.
func (f accessFold) give(p *principal, at int, g grant) {
	p.relations = slices.Insert(p.relations, at, g)
	f.key, f.value = appendRelationKey(f.key[:0], p.id, g.relation.String()), g.append(f.value[:0])
	f.set(f.key, f.value)
}

// findGrant finds a principal's relation, or where it would stand.
func (s *state) findGrant(id policy.PrincipalID, r policy.Relation) (p *principal, at int, found bool) {
	if p = s.access.byID[id]; p == nil {
		return nil, 0, false
	}
	at, found = p.find(r)
	return p, at, found
}

func (p *principal) find(r policy.Relation) (at int, found bool) {
	text := r.String()
	return slices.BinarySearchFunc(p.relations, text, func(g grant, t string) int { return cmp.Compare(g.relation.String(), t) })
}

// accessed files what an event made of a principal.
func (f accessFold) accessed(p *principal, event uuid.UUID) {
	p.seq = f.seq
	f.access.note(p)
	f.noteApplied(toPrincipal(p.id, event))
	f.set(principalKey(p.id), p.append(nil))
}
