package snapshot

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
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
	model Enforcer
	opt   datapath.Options

	mu       sync.Mutex
	projects map[uuid.UUID]*projectTables
	refused  map[policy.NodeID]Refusal
}

// Refusal says that a node's table could not be made: it keeps its last good one.
type Refusal struct {
	Node policy.NodeID
	Err  error // joins a *datapath.CapacityError or a *datapath.LevelsError
	found
}

// tooLarge reports whether a table was refused for its size.
func tooLarge(err error) bool {
	var large *datapath.CapacityError
	var levels *datapath.LevelsError
	return errors.As(err, &large) || errors.As(err, &levels)
}

// projectTables are the tables of one generation of a project.
type projectTables struct {
	generation uint64
	byList     map[listKey]*making
	heads      map[projector.HeadRef]policy.Revision
	asked      map[projector.HeadRef]bool // in this generation
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

// NewTables keeps tables within the limits of opt.
func NewTables(model Enforcer, opt datapath.Options) *Tables {
	return &Tables{
		model: model, opt: opt,
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
	Refused *Refusal
	Assumed []datapath.Assumption // rules enforced for want of an address
	roster  *roster
	then    *roster // of an older table; nil: roster
}

// Of is the table of node id; ok is false when there is no such node. The error
// is a *TableError when the table would be too large and there was none before.
func (t *Tables) Of(id policy.NodeID) (a Answer, ok bool, err error) {
	e, ok, err := t.model.Enforcement(id)
	if err != nil {
		return Answer{}, false, err
	}
	if !ok {
		t.gone(id)
		return Answer{}, false, nil
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	if a, err = t.answer(t.place(e), e); err != nil {
		return Answer{}, false, fmt.Errorf("table of node %s: %w", id, err)
	}
	return a, true, nil
}

// answer makes the table of a node, with what p has of its project already.
func (t *Tables) answer(p *projectTables, e *projector.Enforcement) (a Answer, err error) {
	heads, err := t.heads(p, e, e.Matched)
	if err != nil {
		return Answer{}, err
	}
	rules, assumed := datapath.List(e.Node, heads)
	nodes, err := t.roster(p, e)
	if err != nil {
		return Answer{}, err
	}
	a = Answer{Node: e.Node, Seq: e.Seq, Assumed: assumed, roster: nodes}
	a.Table, err = t.made(p, nodes, rules, present)
	if tooLarge(err) {
		if a.Refused, err = t.lastGood(p, e, nodes, err); err == nil {
			a.Table, a.then = a.Refused.table, a.Refused.roster
		}
		return a, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.refused, e.Node.ID)
	return a, err
}

// heads are the revisions in force, decoded once a generation.
func (t *Tables) heads(p *projectTables, e *projector.Enforcement, refs []projector.HeadRef) ([]datapath.Head, error) {
	heads := make([]datapath.Head, len(refs))
	for i, ref := range refs {
		t.mu.Lock()
		r, known := p.heads[ref]
		p.asked[ref] = true
		t.mu.Unlock()
		if !known {
			var err error
			if r, err = e.Revision(ref); err != nil {
				return nil, err
			}
			t.mu.Lock()
			p.heads[ref] = r
			t.mu.Unlock()
		}
		heads[i] = datapath.Head{Policy: ref.Policy, Revision: r}
	}
	return heads, nil
}

// place is where the tables of e's project are, at its generation; those of an
// older one are let go, and revisions that nobody asked for in it. A reader that
// is late gets a place that nobody else looks at.
func (t *Tables) place(e *projector.Enforcement) *projectTables {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.projects[e.Node.Project]
	if p != nil && p.generation == e.Generation {
		return p
	}
	next := &projectTables{
		generation: e.Generation, byList: map[listKey]*making{},
		heads: map[projector.HeadRef]policy.Revision{}, asked: map[projector.HeadRef]bool{},
	}
	switch {
	case p == nil:
	case p.generation > e.Generation:
		return next
	default:
		for ref := range p.asked {
			if r, known := p.heads[ref]; known {
				next.heads[ref] = r
			}
		}
	}
	t.projects[e.Node.Project] = next
	return next
}

// roster is read once a generation.
func (t *Tables) roster(p *projectTables, e *projector.Enforcement) (*roster, error) {
	p.rostered.Do(func() { p.roster, p.rosterErr = newRoster(e) })
	return p.roster, p.rosterErr
}

// present is the moment of a table that leaves out nothing.
const present = math.MaxUint64

// made is the table of a list, as nodes stood at a sequence. Who asks for the
// same one at the same time waits for it.
func (t *Tables) made(p *projectTables, nodes *roster, rules []datapath.Rule, at uint64) (*Table, error) {
	key := keyOf(rules, at)
	t.mu.Lock()
	m := p.byList[key]
	if m == nil {
		m = &making{}
		p.byList[key] = m
	}
	t.mu.Unlock()
	m.once.Do(func() { m.table, m.err = newTable(nodes.at(at), rules, t.opt) })
	return m.table, m.err
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

// RefusedNodes counts the nodes whose last table was refused, of those that
// anybody asked for.
func (t *Tables) RefusedNodes() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.refused)
}

// gone forgets a node that was removed.
func (t *Tables) gone(id policy.NodeID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.refused, id)
}

// TableError: a node's table cannot be made, and it never had a smaller one.
type TableError struct {
	Node policy.NodeID
	Err  error
}

// Error says why and what the node does.
func (e *TableError) Error() string {
	return fmt.Sprintf("the table of node %s is refused, and it had no other before: %v", e.Node, e.Err)
}

// Unwrap is the reason.
func (e *TableError) Unwrap() error { return e.Err }

// listKey names a list of rules and the moment of the nodes.
type listKey [sha256.Size]byte

// keyOf is equal for equal lists of one project: which rules of which revisions
// they have, in which direction, and which of them are for any peer.
func keyOf(rules []datapath.Rule, at uint64) (key listKey) {
	h := sha256.New()
	line := binary.BigEndian.AppendUint64(nil, at)
	h.Write(line)
	for i := range rules {
		r := &rules[i]
		line = append(line[:0], byte(r.Direction))
		line = append(append(line, r.Ref.Policy...), r.Ref.Revision...)
		line = append(line, byte(r.Ref.Index>>8), byte(r.Ref.Index), 0)
		if r.Peer.Any {
			line[len(line)-1] = 1
		}
		h.Write(line)
	}
	h.Sum(key[:0])
	return key
}
