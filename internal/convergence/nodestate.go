package convergence

import (
	"time"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// State is where a node stands with what the log asks of it. Each node has one.
type State uint8

// The states.
const (
	StateApplied State = iota // it holds what it must, or nothing is asked of it and it never reported
	StateLagging              // it reported, and it is not known to hold what it must
	StateRefused              // it says that it could not put in force what it was sent
	StateSilent               // something is asked of it, and it never reported
)

// States are their names, by State.
var States = [...]string{"applied", "lagging", "refused", "silent"}

// String is the state's name, as in States.
func (s State) String() string { return States[s] }

// stateOf is where a node stands whose report was judged.
func stateOf(s projector.NodeSummary, r *report) State {
	switch {
	case !r.known() && s.Rows:
		return StateSilent
	case !r.known() || r.holds:
		return StateApplied
	case r.outcome == policy.OutcomeRefused:
		return StateRefused
	}
	return StateLagging
}

// Counts are nodes, by where they stand.
type Counts [len(States)]int

// Nodes is how many there are.
func (c Counts) Nodes() (n int) {
	for _, x := range c {
		n += x
	}
	return n
}

// NodeStatus is where a node stands, and what it reported last.
type NodeStatus struct {
	Node  policy.NodeID
	State State
	// Desired is the log sequence of the last event that changed what the node must
	// hold, or the node itself.
	Desired uint64
	// Version is the log sequence that its last report names, Table that of its table;
	// 0: none.
	Version, Table uint64
	Outcome        policy.Outcome
	Reason         string // as Refusal has it
	// Since is when that report arrived, or the first that said the same in a row; zero:
	// it never reported.
	Since time.Time
}

// Reported reports whether the node ever did.
func (n NodeStatus) Reported() bool { return !n.Since.IsZero() }

// Statuses says where nodes stand, those of them that exist, in their order. The error is
// *NotReadyError.
func (t *Tracker) Statuses(ids []policy.NodeID) ([]NodeStatus, error) {
	if !t.heard() {
		return nil, &NotReadyError{}
	}
	out := make([]NodeStatus, 0, len(ids))
	for len(ids) > 0 {
		n := min(chunk, len(ids))
		t.opt.Model.Read(func(v *projector.View) {
			t.mu.Lock()
			defer t.mu.Unlock()
			for _, id := range ids[:n] {
				if s, ok := v.NodeSummary(id); ok {
					out = append(out, t.status(v, s))
				}
			}
		})
		ids = ids[n:]
	}
	return out, nil
}

func (t *Tracker) status(v *projector.View, s projector.NodeSummary) NodeStatus {
	r := t.table.of(s.Ordinal)
	t.judge(v, r, s)
	out := NodeStatus{Node: s.ID, State: stateOf(s, r), Desired: max(s.Generation, s.Facts)}
	if r.known() {
		out.Version, out.Table, out.Outcome = r.version, r.table, r.outcome
		out.Reason, out.Since = t.table.reasons.of[s.Ordinal], r.arrived()
	}
	return out
}
