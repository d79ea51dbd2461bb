package snapshot

import (
	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// answered is what a node was answered in a generation.
type answered struct {
	table   tableKey
	sum     contents
	assumed []datapath.Assumption
	refused *Refusal
	none    error // a *TableError
}

// Answer is a node's table and the log sequence at which it was right.
type Answer struct {
	*Table
	Node policy.Node
	Seq  uint64
	// Refused is why the table is an older one than the facts ask for; nil: it is
	// not.
	Refused *Refusal
	Assumed []datapath.Assumption // rules enforced for want of an address, the first of each policy
	roster  *roster
	then    *roster // of an older table; nil: roster
}

// known is the answer that e's node has in this generation, where it is in memory
// still.
func (t *Tables) known(e *projector.Enforcement) (a Answer, ok bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.projects[e.Node.Project]
	if p == nil || p.generation != e.Generation {
		return Answer{}, false, nil
	}
	x, ok := p.answers[e.Node.ID]
	if !ok || x.none != nil {
		return Answer{}, ok, x.none
	}
	table, ok := t.made.get(x.table)
	a = Answer{Table: table, Node: e.Node, Seq: e.Seq, Refused: x.refused, Assumed: x.assumed, roster: p.roster}
	if ok && x.refused != nil {
		a.then, ok = p.then[x.refused.AsOf]
	}
	return a, ok, nil
}

// answer makes the table of a node, with what p has of its project already. The
// error is errAllowance when the job may not do so much.
func (t *Tables) answer(j *job, p *projectTables, e *projector.Enforcement) (a Answer, err error) {
	if a, ok, err := t.known(e); ok || err != nil {
		return a, err
	}
	s, x, then, err := t.decide(j, p, e)
	if err != nil {
		return Answer{}, err
	}
	a = Answer{Node: e.Node, Seq: e.Seq, roster: p.roster, Refused: x.refused, Assumed: x.assumed, then: then}
	if s.table != nil {
		a.Table = t.written(p.project, x.table, s)
	}
	return a, x.none
}

// decide finds what a node is to be answered: what its list comes to, or what it
// came to last, with the roster of then.
func (t *Tables) decide(j *job, p *projectTables, e *projector.Enforcement) (s *listState, x answered, then *roster, err error) {
	if err := t.nodes(p, e, j.proceed); err != nil {
		return nil, x, nil, err
	}
	s, steps, assumed, err := t.at(j, p, e, e.Matched, present)
	if err != nil {
		return nil, x, nil, err
	}
	if x.assumed = assumed; s.err != nil {
		refused := s.err
		good, err := t.lastGood(j, p, e, steps)
		if err != nil {
			return nil, x, nil, err
		}
		x.refused = &Refusal{Node: e.Node.ID, Err: refused, AsOf: good.AsOf}
		if s, then = good.listState, good.roster; s.rules == 0 {
			x.none = &TableError{Node: e.Node.ID, Err: refused}
		}
	}
	if s.table != nil {
		x.table, x.sum = s.key(p.project), s.sum
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.answers[e.Node.ID] = x; x.refused != nil {
		t.refused[e.Node.ID] = *x.refused
		p.keepThen(x.refused.AsOf, then)
	} else {
		delete(t.refused, e.Node.ID)
	}
	return s, x, then, nil
}

// answered is what a node was answered in the generation of a place, by whoever
// asked.
func (t *Tables) answered(p *projectTables, id policy.NodeID) (x answered, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x, ok = p.answers[id]
	return x, ok
}

// Kept is a table of a project that somebody was answered, newer or older, by its
// fingerprint; ok is false when it is not in memory.
func (t *Tables) Kept(project uuid.UUID, fp compiler.Fingerprint) (table *Table, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.made.find(func(x *Table) bool { return x.Fingerprint == fp && x.project == project })
}

// written is a table with its bytes.
func (t *Tables) written(project uuid.UUID, key tableKey, s *listState) *Table {
	t.mu.Lock()
	table, known := t.made.get(key)
	t.mu.Unlock()
	if known {
		return table
	}
	table = newTable(project, s)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.made.put(key, table, len(table.Body)+bytesPerRule*s.rules+bytesPerEntry*s.table.Len())
	return table
}

// bytesPerEntry is about what an entry takes, with its share of an identity.
const bytesPerEntry = 64
