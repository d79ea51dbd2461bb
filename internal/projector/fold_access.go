package projector

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/google/uuid"

	"github.com/edictdev/edict/policy"
)

// accessState holds the principals and what each may do.
type accessState struct {
	byID map[policy.PrincipalID]*principal
	live int
	// bootstrap finds who has a bootstrap token, by its hash.
	bootstrap map[[32]byte]policy.PrincipalID
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
	relations []grant           // by text; never changed in place. See bind
}

// grant is a relation that somebody gave.
type grant struct {
	relation policy.Relation
	seq      uint64
	by       string
}

func newAccessState() accessState {
	return accessState{byID: map[policy.PrincipalID]*principal{}, bootstrap: map[[32]byte]policy.PrincipalID{}}
}

// put gives p its document, nil for none.
func (a *accessState) put(p *principal, document *policy.Principal) {
	if p.document != nil {
		a.live--
		for _, t := range p.document.Bootstrap {
			if a.bootstrap[t.Hash] == p.id {
				delete(a.bootstrap, t.Hash)
			}
		}
	}
	if document != nil {
		a.live++
		for _, t := range document.Bootstrap {
			a.bootstrap[t.Hash] = p.id
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

func (f *fold) principalUpdated(ev policy.PrincipalUpdated, fault *policy.DecodeError) Verdict {
	p := f.access.byID[ev.Principal]
	if f.applied(toPrincipal(ev.Principal, ev.ID)) {
		return duplicate
	}
	if fault != nil {
		return invalid(fault)
	}
	live := p != nil && p.document != nil
	switch {
	case ev.Expected == nil:
	case *ev.Expected == 0 && live:
		return reject(CodeRevisionConflict, "there is a principal %s, at version %d: choose another id, or name its version", ev.Principal, p.version)
	case *ev.Expected != 0 && !live:
		return reject(CodeRevisionConflict, "there is no principal %s: it was removed, or never made", ev.Principal)
	case *ev.Expected != 0 && p.version != *ev.Expected:
		return reject(CodeRevisionConflict, "principal %s is at version %d, not %d: read it, then send the change again", ev.Principal, p.version, *ev.Expected)
	}
	if p == nil {
		p = &principal{id: ev.Principal}
	}
	if !live {
		p.created = f.time
	}
	p.version, p.updated, p.createdBy = f.seq, f.time, ev.CreatedBy
	keepConsumed(p.document, &ev.Document)
	f.access.put(p, &ev.Document)
	f.accessed(p, ev.ID)
	return Verdict{}
}

func (f *fold) principalRemoved(ev policy.PrincipalRemoved, fault *policy.DecodeError) Verdict {
	p := f.access.byID[ev.Principal]
	switch {
	case f.applied(toPrincipal(ev.Principal, ev.ID)):
		return duplicate
	case fault != nil:
		return invalid(fault)
	case p == nil || p.document == nil && len(p.relations) == 0:
		f.noteApplied(toPrincipal(ev.Principal, ev.ID))
		return duplicate
	}
	p.version, p.updated, p.createdBy, p.relations = f.seq, f.time, "", nil
	f.access.put(p, nil)
	f.accessed(p, ev.ID)
	return Verdict{}
}

func (f *fold) relationWritten(ev policy.RelationWritten, fault *policy.DecodeError) Verdict {
	relation := f.bind(ev.Relation)
	p, at, found := f.findGrant(ev.Principal, relation)
	switch {
	case f.applied(toPrincipal(ev.Principal, ev.ID)):
		return duplicate
	case fault != nil:
		return invalid(fault)
	case found:
		f.noteApplied(toPrincipal(ev.Principal, ev.ID))
		return duplicate
	case p == nil:
		p = &principal{id: ev.Principal}
		f.access.put(p, nil)
	}
	p.give(at, grant{relation, f.seq, ev.CreatedBy})
	f.accessed(p, ev.ID)
	return Verdict{}
}

func (f *fold) relationRemoved(ev policy.RelationRemoved, fault *policy.DecodeError) Verdict {
	p := f.access.byID[ev.Principal]
	switch {
	case f.applied(toPrincipal(ev.Principal, ev.ID)):
		return duplicate
	case fault != nil:
		return invalid(fault)
	case p == nil || !p.take(ev.Relation):
		f.noteApplied(toPrincipal(ev.Principal, ev.ID))
		return duplicate
	}
	f.accessed(p, ev.ID)
	return Verdict{}
}

// bind gives a relation to a node that names no project the one that owns the
// node now. Where nobody does it stays without, and allows nothing: whoever
// named the node first later would come to it.
func (f *fold) bind(r policy.Relation) policy.Relation {
	if r.Whole() {
		return r
	}
	if n := f.nodes[r.Node]; n != nil {
		r.ID = n.project.id
	}
	return r
}

// take takes a relation back; one to a node that names no project, whichever
// project's it is. False: there is none.
func (p *principal) take(r policy.Relation) bool {
	had := len(p.relations)
	p.relations = slices.DeleteFunc(slices.Clone(p.relations), func(g grant) bool {
		have := g.relation
		if !r.Whole() {
			have.ID = uuid.Nil
		}
		return have == r
	})
	return len(p.relations) < had
}

// give inserts a relation where findGrant says.
func (p *principal) give(at int, g grant) {
	p.relations = slices.Insert(slices.Clone(p.relations), at, g)
}

// findGrant finds a principal's relation, or where it would stand.
func (f *fold) findGrant(id policy.PrincipalID, r policy.Relation) (p *principal, at int, found bool) {
	if p = f.access.byID[id]; p == nil {
		return nil, 0, false
	}
	text := r.String()
	at, found = slices.BinarySearchFunc(p.relations, text, func(g grant, t string) int { return cmp.Compare(g.relation.String(), t) })
	return p, at, found
}

// accessed files what an event made of a principal.
func (f *fold) accessed(p *principal, event uuid.UUID) {
	p.seq = f.seq
	f.access.note(p)
	f.noteApplied(toPrincipal(p.id, event))
	f.set(principalKey(p.id), p.append(nil))
}

func (p *principal) append(b []byte) []byte {
	b = appendU64(appendU64(b, p.version), p.seq)
	b = appendText(appendU64(appendU64(b, uint64(p.created)), uint64(p.updated)), p.createdBy)
	b = binary.AppendUvarint(b, uint64(len(p.relations)))
	for _, g := range p.relations {
		b = appendText(appendU64(appendText(b, g.relation.String()), g.seq), g.by)
	}
	if p.document == nil {
		return append(b, 0)
	}
	return policy.AppendPrincipal(append(b, 1), *p.document)
}

func readPrincipal(id policy.PrincipalID, b []byte) (*principal, error) {
	r := reader{b: b}
	p := &principal{id: id, version: r.u64(), seq: r.u64(), created: r.time(), updated: r.time(), createdBy: r.text()}
	for range r.uvarint() {
		rel, err := policy.ParseRelation(r.text())
		g := grant{rel, r.u64(), r.text()}
		if err != nil || r.err != nil {
			return nil, errRecord
		}
		p.relations = append(p.relations, g)
	}
	if live := r.u8() == 1; !live || r.err != nil {
		return p, r.err
	}
	d, err := policy.DecodePrincipal(r.b)
	if err != nil {
		return nil, errRecord
	}
	p.document = &d
	return p, nil
}

// access reads the principals from the store.
func (l *loader) access() error {
	a := &l.state.access
	err := l.scan(keyPrincipal, func(k, v []byte) error {
		p, err := readPrincipal(policy.PrincipalID(k), v)
		if err != nil {
			return err
		}
		document := p.document
		p.document = nil // it is counted by put
		a.put(p, document)
		a.changes = append(a.changes, changed[policy.PrincipalID]{p.seq, p.id})
		return nil
	})
	sortChanges(a.changes)
	return err
}
