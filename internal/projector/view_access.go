package projector

import (
	"slices"
	"time"

	"github.com/edictdev/edict/policy"
)

// Principal is a principal as the fold has it, with its relations. Document is
// nil where there are relations alone, or nothing any more; it is shared and
// must not be changed.
type Principal struct {
	ID                   policy.PrincipalID
	Document             *policy.Principal
	Version              uint64 // log sequence of the event that gave the document, or ended it
	CreatedBy            string
	CreatedAt, UpdatedAt time.Time // log timestamps
	Relations            []Grant   // by text
}

// Grant is a relation, and who gave it at which log sequence.
type Grant struct {
	Relation policy.Relation
	Seq      uint64
	By       string
}

func (p *principal) info() Principal {
	out := Principal{
		ID: p.id, Document: p.document, Version: p.version, CreatedBy: p.createdBy,
		CreatedAt: logTime(p.created), UpdatedAt: logTime(p.updated), Relations: make([]Grant, len(p.relations)),
	}
	for i, g := range p.relations {
		out.Relations[i] = Grant{g.relation, g.seq, g.by}
	}
	return out
}

// Principal returns what the log knows of an id, if anything.
func (v *View) Principal(id policy.PrincipalID) (Principal, bool) {
	p := v.m.state.access.byID[id]
	if p == nil || p.document == nil && len(p.relations) == 0 {
		return Principal{}, false
	}
	return p.info(), true
}

// Principals lists the principals after an id, by id, at most limit.
func (v *View) Principals(after policy.PrincipalID, limit int) []Principal {
	var ids []policy.PrincipalID
	for id, p := range v.m.state.access.byID {
		if id > after && (p.document != nil || len(p.relations) > 0) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	out := make([]Principal, 0, min(limit, len(ids)))
	for _, id := range ids[:min(limit, len(ids))] {
		out = append(out, v.m.state.access.byID[id].info())
	}
	return out
}

// AccessSince lists the principals that changed after sequence seq, each as it
// is now, removed ones too, oldest change first; and the sequence of the last
// change.
func (v *View) AccessSince(seq uint64) (changed []Principal, last uint64) {
	for _, p := range v.m.state.access.since(seq) {
		changed = append(changed, p.info())
	}
	return changed, v.m.state.access.last()
}

// AccessVersion is the sequence of the last change of a principal or relation
// that the fold has made. It takes no lock.
func (m *model) AccessVersion() uint64 { return m.accessSeq.Load() }

// ProjectOfNode is the project that owns a node id, of a removed node too.
func (v *View) ProjectOfNode(id policy.NodeID) (project [16]byte, ok bool) {
	n := v.m.state.nodes[id]
	if n == nil {
		return project, false
	}
	return n.project.id, true
}
