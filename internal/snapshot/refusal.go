package snapshot

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/policy"
)

// Refusal says that a node's table could not be made: it keeps its last good one.
type Refusal struct {
	Node policy.NodeID
	Err  error // joins a *datapath.CapacityError, a *datapath.LevelsError or a *datapath.WorkError
	// AsOf is the log sequence of the facts that the last good table is made of; 0:
	// there is none.
	AsOf uint64
}

// tooLarge reports whether a table was refused for its size, or for the work that
// it takes.
func tooLarge(err error) bool {
	var large *datapath.CapacityError
	var levels *datapath.LevelsError
	var work *datapath.WorkError
	return errors.As(err, &large) || errors.As(err, &levels) || errors.As(err, &work)
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

// RefusedWhere are the nodes whose last table was refused, of those asked for, that is
// accepts: by id, at most limit.
func (t *Tables) RefusedWhere(is func(policy.NodeID) bool, limit int) []Refusal {
	t.mu.Lock()
	ids := slices.Sorted(maps.Keys(t.refused))
	t.mu.Unlock()
	var accepted []policy.NodeID
	for _, id := range ids {
		if len(accepted) < limit && is(id) {
			accepted = append(accepted, id)
		}
	}
	return t.Refused(accepted)
}

// RefusedNodes counts the nodes whose last table was refused, of those that
// anybody asked for, and forgets those that were removed.
func (t *Tables) RefusedNodes(exists func(policy.NodeID) bool) int {
	t.mu.Lock()
	ids := slices.Collect(maps.Keys(t.refused))
	t.mu.Unlock()
	for _, id := range ids {
		if !exists(id) {
			t.gone(id)
		}
	}
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
