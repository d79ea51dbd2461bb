package snapshot

import (
	"github.com/edictdev/edict/compiler/datapath"
	"github.com/edictdev/edict/projector"
)

// lastGood finds what a node enforces whose table is refused: the one of the
// latest moment before, as far as it is made of what stands now. Policies are
// as they were then, without those deleted since; nodes whose facts changed
// since are left out. So it follows from the facts alone: every worker finds
// the same, before a restart and after it, and nobody has to keep it.
//
// The search takes tables to grow with the log: it doubles its step back until
// one fits, and then halves it. Where tables shrank meanwhile, it may find one
// that is older than it need be.
func (t *Tables) lastGood(p *projectTables, e *projector.Enforcement, nodes *roster, refused error) (*Refusal, error) {
	r := &Refusal{Node: e.Node.ID, Err: refused}
	changes, err := e.Changes()
	if err != nil {
		return nil, err
	}
	bad, step := -1, 1
	for good := len(changes); bad+1 < good; {
		i := bad + step
		if step == 0 || i >= good {
			i = (bad + good) / 2
		}
		then, err := t.at(p, e, nodes, changes[i]-1)
		if err != nil {
			return nil, err
		}
		if then == nil {
			bad = i
			step *= 2
			continue
		}
		r.found, good, step = *then, i, 0
	}
	t.mu.Lock()
	t.refused[e.Node.ID] = *r
	t.mu.Unlock()
	if r.table == nil || r.rules == 0 {
		return nil, &TableError{Node: e.Node.ID, Err: refused}
	}
	return r, nil
}

// found is a table of an earlier moment.
type found struct {
	// AsOf is the log sequence of the facts that the last good table is made of; 0:
	// there is none.
	AsOf   uint64
	table  *Table
	roster *roster
	rules  int
}

// at is a node's table of an earlier moment; nil: that one was too large, too.
func (t *Tables) at(p *projectTables, e *projector.Enforcement, nodes *roster, seq uint64) (*found, error) {
	refs, err := e.MatchedAt(seq)
	if err != nil {
		return nil, err
	}
	heads, err := t.heads(p, e, refs)
	if err != nil {
		return nil, err
	}
	rules, _ := datapath.List(e.Node, heads)
	table, err := t.made(p, nodes, rules, seq)
	if tooLarge(err) {
		return nil, nil
	}
	return &found{AsOf: seq, table: table, roster: nodes.at(seq), rules: len(rules)}, err
}
