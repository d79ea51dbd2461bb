package snapshot

import (
	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// projectTables are the tables of one generation of a project.
type projectTables struct {
	project    uuid.UUID
	generation uint64
	roster     *roster // nil: not yet known
	// before is the roster of an earlier generation, from which this one's follows;
	// nil: there is none.
	before  *roster
	since   uint64 // the generation of before
	answers map[policy.NodeID]answered
	older   *keeper[listKey, *listState] // of older moments
	then    map[uint64]*roster           // of older moments
}

// keepThen keeps a roster of an older moment, and few of them.
func (p *projectTables) keepThen(seq uint64, r *roster) {
	if len(p.then) >= 4 {
		clear(p.then)
	}
	p.then[seq] = r
}

// place is where the tables of e's project are, at its generation; what an older
// one has found is let go. A reader that is late gets a place that nobody else
// looks at.
func (t *Tables) place(e *projector.Enforcement) *projectTables {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.projects[e.Node.Project]
	if p != nil && p.generation == e.Generation {
		return p
	}
	next := &projectTables{
		project: e.Node.Project, generation: e.Generation, answers: map[policy.NodeID]answered{},
		older: newKeeper[listKey, *listState](t.bytes), then: map[uint64]*roster{},
	}
	if p != nil && p.generation > e.Generation {
		return next
	}
	if p != nil {
		if next.before, next.since = p.roster, p.generation; p.roster == nil {
			next.before, next.since = p.before, p.since
		}
	}
	t.projects[e.Node.Project] = next
	return next
}

// nodes finds out who the nodes of a generation are: from those of the one before
// and what happened since, or else from the read model.
func (t *Tables) nodes(p *projectTables, e *projector.Enforcement, proceed func() error) error {
	t.mu.Lock()
	known, r := p.roster != nil, p.before
	t.mu.Unlock()
	if known {
		return nil
	}
	if r != nil {
		if list, whole := e.ChangesAbove(p.since); whole {
			r, _ = r.follow(list)
		} else {
			r = nil
		}
	}
	if r == nil {
		var err error
		if r, err = newRoster(e.Nodes(), e.Generation, proceed); err != nil {
			return err
		}
	}
	t.keepRoster(p, r)
	return nil
}

// keepRoster keeps the roster of a generation: the first that somebody had.
func (t *Tables) keepRoster(p *projectTables, r *roster) *roster {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.roster == nil {
		p.roster, p.before = r, nil
	}
	return p.roster
}
