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
// the search ends before. steps are those that the refused one took; they are those that a table takes to make, whether it
// is still in memory or not.
func (t *Tables) lastGood(j *job, p *projectTables, e *projector.Enforcement, steps int) (good found, err error) {
	good.listState = &listState{}
	changes, err := e.Changes(j.proceed)
	if err != nil {
		return good, err
	}
	bad, step := -1, 1
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
		s, took, _, err := t.at(j, p, e, refs, seq)
		if err != nil {
			return good, err
		}
		if steps += took; s.err != nil {
			bad = i
			step *= 2
			continue
		}
		good, end, step = found{AsOf: seq, listState: s}, i, 0
	}
	if good.AsOf > 0 {
		good.roster = p.roster.at(good.AsOf)
	}
	return good, nil
}

// found is what a list came to at an earlier moment.
type found struct {
	*listState
	AsOf   uint64 // the log sequence of its facts; 0: there is none
	roster *roster
}
