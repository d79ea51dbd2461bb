package snapshot

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/google/uuid"

	"github.com/edictdev/edict/compiler/datapath"
	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/projector"
)

// Enforcer gives what a node's table is made of; *projector.Projector is one.
type Enforcer interface {
	Enforcement(id policy.NodeID) (*projector.Enforcement, bool, error)
}

// Tables makes the tables of nodes (design section 8) and keeps them. Nodes that
// enforce the same list share one. A table is made again when a node or a policy
// of the project has changed since, and only then. Safe for concurrent use.
type Tables struct {
	model    Enforcer
	capacity int

	mu       sync.Mutex
	projects map[uuid.UUID]*projectTables
	refused  map[policy.NodeID]Refusal
}

// Refusal says that a node's table could not be made: it keeps its last good one.
type Refusal struct {
	Node policy.NodeID
	Err  error // joins a *datapath.CapacityError or a *datapath.LevelsError
}

// projectTables are the tables of one generation of a project.
type projectTables struct {
	generation uint64
	byList     map[[sha256.Size]byte]*making
	byNode     map[policy.NodeID]*Table // the last good one of each
	bytes      int                      // of what came into byNode
	current    map[*Table]bool          // those of this generation
	heads      map[projector.HeadRef]policy.Revision
	rostered   sync.Once
	roster     *roster
	rosterErr  error
}

// making is a table that somebody makes and others wait for.
type making struct {
	once  sync.Once
	table *Table
	err   error
}

// NewTables keeps tables of up to capacity entries; 0: datapath.DefaultCapacity.
func NewTables(model Enforcer, capacity int) *Tables {
	return &Tables{
		model: model, capacity: capacity,
		projects: map[uuid.UUID]*projectTables{}, refused: map[policy.NodeID]Refusal{},
	}
}

// Answer is a node's table and the log sequence at which it was right.
type Answer struct {
	*Table
	Node policy.Node
	Seq  uint64
	// Refused is why the table is an older one than the facts ask for; nil: it is
	// not.
	Refused error
	Assumed []datapath.Assumption // rules enforced for want of an address
	roster  *roster
}

// Of is the table of node id; ok is false when there is no such node. The error
// is a *TableError when the table would be too large and there is no older one
// to serve.
func (t *Tables) Of(id policy.NodeID) (a Answer, ok bool, err error) {
	e, ok, err := t.model.Enforcement(id)
	if err != nil || !ok {
		return Answer{}, false, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	heads, err := t.heads(e)
	if err != nil {
		return Answer{}, false, fmt.Errorf("table of node %s: %w", id, err)
	}
	rules, assumed := datapath.List(e.Node, heads)
	m := t.making(e, rules)
	nodes, err := t.roster(e)
	if err != nil {
		return Answer{}, false, fmt.Errorf("table of node %s: %w", id, err)
	}
	m.once.Do(func() { m.table, m.err = newTable(nodes, rules, t.capacity) })
	a = Answer{Node: e.Node, Seq: e.Seq, Assumed: assumed, roster: nodes}
	a.Table, a.Refused, err = t.settle(e, m)
	return a, err == nil, err
}

// heads are the revisions in force, decoded once a generation.
func (t *Tables) heads(e *projector.Enforcement) ([]datapath.Head, error) {
	heads := make([]datapath.Head, len(e.Matched))
	for i, ref := range e.Matched {
		t.mu.Lock()
		r, known := t.project(e).heads[ref]
		t.mu.Unlock()
		if !known {
			var err error
			if r, err = e.Revision(ref); err != nil {
				return nil, err
			}
			t.mu.Lock()
			t.project(e).heads[ref] = r
			t.mu.Unlock()
		}
		heads[i] = datapath.Head{Policy: ref.Policy, Revision: r}
	}
	return heads, nil
}

// project is the project of e at its generation; tables of an older one are let
// go, but for the last good one of each node. A reader that is late gets a place
// that nobody else looks at.
func (t *Tables) project(e *projector.Enforcement) *projectTables {
	p := t.projects[e.Node.Project]
	if p != nil && p.generation == e.Generation {
		return p
	}
	next := &projectTables{
		generation: e.Generation, byList: map[[sha256.Size]byte]*making{},
		byNode: map[policy.NodeID]*Table{}, current: map[*Table]bool{}, heads: map[projector.HeadRef]policy.Revision{},
	}
	switch {
	case p == nil:
	case p.generation > e.Generation:
		return next
	default:
		next.byNode, next.bytes = p.byNode, p.bytes
		for _, ref := range e.Matched {
			if r, known := p.heads[ref]; known {
				next.heads[ref] = r
			}
		}
	}
	t.projects[e.Node.Project] = next
	return next
}

// roster is read once a generation.
func (t *Tables) roster(e *projector.Enforcement) (*roster, error) {
	t.mu.Lock()
	p := t.project(e)
	t.mu.Unlock()
	p.rostered.Do(func() { p.roster, p.rosterErr = newRoster(e) })
	return p.roster, p.rosterErr
}

func (t *Tables) making(e *projector.Enforcement, rules []datapath.Rule) *making {
	key := listKey(rules)
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.project(e)
	m := p.byList[key]
	if m == nil {
		m = &making{}
		p.byList[key] = m
	}
	return m
}

// settle remembers a good table, or finds the last one.
func (t *Tables) settle(e *projector.Enforcement, m *making) (table *Table, refused, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.project(e)
	if m.err == nil {
		t.keep(p, e.Node.ID, m.table)
		delete(t.refused, e.Node.ID)
		return m.table, nil, nil
	}
	var large *datapath.CapacityError
	var levels *datapath.LevelsError
	if !errors.As(m.err, &large) && !errors.As(m.err, &levels) {
		return nil, nil, m.err
	}
	t.refused[e.Node.ID] = Refusal{Node: e.Node.ID, Err: m.err}
	if last := p.byNode[e.Node.ID]; last != nil {
		return last, m.err, nil
	}
	return nil, nil, &TableError{Node: e.Node.ID, Err: m.err}
}

// keptBytes bounds the tables that are kept for nodes whose next one may be
// refused.
const keptBytes = 256 << 20

// keep makes a table the last good one of a node. When the older ones take too
// much, all of them go but those of lists that somebody asked for since.
func (t *Tables) keep(p *projectTables, id policy.NodeID, table *Table) {
	p.current[table] = true
	if p.byNode[id] == table {
		return
	}
	p.byNode[id] = table
	if p.bytes += len(table.Body); p.bytes <= keptBytes {
		return
	}
	maps.DeleteFunc(p.byNode, func(_ policy.NodeID, kept *Table) bool { return !p.current[kept] })
	p.bytes = 0
}

// Refused are the nodes whose last table was refused, of those asked for.
func (t *Tables) Refused(of []policy.NodeID) []Refusal {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []Refusal
	for _, id := range of {
		if r, ok := t.refused[id]; ok {
			out = append(out, r)
		}
	}
	return out
}

// TableError: a node's table cannot be made, and this process has no older one.
type TableError struct {
	Node policy.NodeID
	Err  error
}

// Error says why and what the node does.
func (e *TableError) Error() string {
	return fmt.Sprintf("the table of node %s is refused, and the node keeps the one it has: %v", e.Node, e.Err)
}

// Unwrap is the reason.
func (e *TableError) Unwrap() error { return e.Err }

// listKey is equal for equal lists of one generation: which rules they have, in
// which direction, and which of them are for any peer.
func listKey(rules []datapath.Rule) (key [sha256.Size]byte) {
	h := sha256.New()
	var line []byte
	for i := range rules {
		r := &rules[i]
		line = append(line[:0], byte(r.Direction))
		line = append(line, r.Ref.Policy...)
		line = append(line, byte(r.Ref.Index>>8), byte(r.Ref.Index), 0)
		if r.Peer.Any {
			line[len(line)-1] = 1
		}
		h.Write(line)
	}
	h.Sum(key[:0])
	return key
}
