package snapshot

import (
	"github.com/edictdev/edict/internal/projector"
)

// searched is how many times the budget of a table the search for a last good one
// may take.
const searched = 4

// lastGood finds what a node enforces whose table is refused: the one of the
// latest moment before, as far as it is made of what stands now. Policies are
// as they were then, without those deleted since; nodes whose facts changed
// since are left out. So it follows from the facts alone: every worker finds
// the same, before a restart and after it, and nobody has to keep it.
//
// The search takes tables to grow with the log: it doubles its step back until
// one fits, and then halves it. Where tables shrank meanwhile, it may find one
// that is older than it need be; so it may where tables take so many steps that
// the search ends before. Steps are those that a table takes to make, whether it
// is still in memory or not.
func (t *Tables) lastGood(j *job, p *projectTables, e *projector.Enforcement, refused madeTable) (good found, err error) {
	changes, err := e.Changes(j.proceed)
	if err != nil {
		return good, err
	}
	bad, step, steps := -1, 1, refused.steps
	for end := len(changes); bad+1 < end && steps < searched*t.opt.Budget(); {
		i := bad + step
		if step == 0 || i >= end {
			i = (bad + end) / 2
		}
		seq := changes[i] - 1
		refs, err := e.MatchedAt(seq, j.proceed)
		if err != nil {
			return good, err
		}
		made, key, _, err := t.at(j, p, e, refs, seq)
		if err != nil {
			return good, err
		}
		if steps += made.steps; made.err != nil {
			bad = i
			step *= 2
			continue
		}
		good, end, step = found{AsOf: seq, table: made.Table, key: key, rules: made.rules}, i, 0
	}
	if good.table != nil {
		good.roster = p.roster.at(good.AsOf)
	}
	return good, nil
}

// found is a table of an earlier moment.
type found struct {
	AsOf   uint64 // the log sequence of its facts; 0: there is none
	table  *Table
	key    tableKey
	roster *roster
	rules  int
}
