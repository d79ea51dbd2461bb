package convergence

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// Refusal is a node that says that it does not have in force what it was sent.
type Refusal struct {
	Node    policy.NodeID
	Outcome policy.Outcome // never OutcomeApplied
	Reason  string         // as the node said it; empty: it gave none, or it is not known here any more
	Since   time.Time      // when the first report of this outcome in a row arrived, as far as this process knows
}

// maxReasons bounds the memory of reasons, in bytes. Nodes of one fault give one
// reason, so a fleet needs less.
const maxReasons = 8 << 20

// reasonCost is what a reason takes beside its text, about.
const reasonCost = 64

// reasons are those of nodes that have something not applied, by ordinal. Where
// there are too many, some are forgotten: the node will say it again.
type reasons struct {
	of   map[uint32]string
	size int
}

// note keeps the reason of a node's last report.
func (x *reasons) note(ordinal uint32, said policy.Report) {
	x.drop(ordinal)
	if said.Outcome == policy.OutcomeApplied || said.Reason == "" {
		return
	}
	if x.of == nil {
		x.of = map[uint32]string{}
	}
	for other := range x.of {
		if x.size+len(said.Reason)+reasonCost <= maxReasons {
			break
		}
		x.drop(other)
	}
	x.of[ordinal] = said.Reason
	x.size += len(said.Reason) + reasonCost
}

func (x *reasons) drop(ordinal uint32) {
	if was, ok := x.of[ordinal]; ok {
		x.size -= len(was) + reasonCost
		delete(x.of, ordinal)
	}
}

// refusal is what a node of an ordinal says that it does not have in force.
type refusal struct {
	ordinal uint32
	outcome policy.Outcome
	since   int64 // as report.at
}

// refusal is what a node says it does not have in force; ok is false when it says
// nothing of the kind.
func (t *table) refusal(ordinal uint32, r *report) (x refusal, ok bool) {
	return refusal{ordinal, r.outcome, r.at}, r.known() && !r.applied()
}

// compare orders by what lasts the longest.
func (x refusal) compare(other refusal) int {
	return cmp.Or(cmp.Compare(x.since, other.since), cmp.Compare(x.ordinal, other.ordinal))
}

// refusals shows what those nodes say that still exist.
func (t *Tracker) refusals(of *first[refusal]) []Refusal {
	var out []Refusal
	t.opt.Model.Read(func(v *projector.View) {
		t.mu.Lock()
		defer t.mu.Unlock()
		for _, x := range of.sorted() {
			if n, ok := v.NodeAt(x.ordinal); ok {
				out = append(out, Refusal{n.ID, x.outcome, t.table.reasons.of[x.ordinal], time.Unix(0, x.since).UTC()})
			}
		}
	})
	slices.SortFunc(out, func(a, b Refusal) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Node, b.Node)) })
	return out
}

// NotApplied counts the nodes that say that something is not applied, by outcome.
// It goes through all nodes unless there can be none. The error is
// *NotReadyError, or ctx's.
func (t *Tracker) NotApplied(ctx context.Context) (map[policy.Outcome]int, error) {
	now := t.now(0)
	t.mu.Lock()
	not, last := t.table.not, t.fleet
	t.mu.Unlock()
	switch {
	case not == 0 && t.heard():
		return nil, nil
	case last != nil && last.seq == now.seq && last.turns == now.turns:
		return last.fleet.NotApplied, nil // whatever else was asked for then
	}
	f, err := t.Fleet(ctx, 0)
	return f.NotApplied, err
}
