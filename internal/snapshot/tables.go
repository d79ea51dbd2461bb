package snapshot

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// Enforcer gives what a node's table is made of; *projector.Projector is one.
type Enforcer interface {
	Enforcement(id policy.NodeID) (*projector.Enforcement, bool, error)
}

// TableOptions has a useful zero value.
type TableOptions struct {
	Capacity int // entries that a table may hold; 0: datapath.DefaultCapacity
	Levels   int // levels that a direction may have; 0: all that a precedence tells apart
	Steps    int // of work that a table may take; 0: datapath.Options' budget
	// Workers is how many tables are made at a time; 0: one processor is left to
	// everything else.
	Workers int
	// Waiting is how many requests of one project may wait for a table; 0: 64.
	Waiting int
	// CacheBytes bounds the tables kept in memory, again what lists come to, and again
	// the revisions that they are made of; 0: 64 MiB.
	CacheBytes int
}

// Tables makes the tables of nodes (docs/design.md#ordered-policy) and keeps those used last.
// Nodes that enforce the same list share one, and what the list comes to is brought
// up to date with what happened since. Who asks for a table that is being made
// waits for the same. Projects share the workers that make them. Safe for
// concurrent use.
type Tables struct {
	model   Enforcer
	opt     datapath.Options
	rooms   *rooms
	turns   *turns
	inAudit *Tables // nil: these are
	lost    *refusedLists

	bytes int // that each of the keepers may hold

	mu       sync.Mutex
	projects map[uuid.UUID]*projectTables
	flights  map[policy.NodeID]*flight
	lists    *keeper[inProject, *follower]
	made     *keeper[tableKey, *Table]
	heads    *keeper[projector.HeadRef, keptHead]
	refused  map[policy.NodeID]Refusal
	spent    uint64            // steps
	outcomes map[string]uint64 // as TableCounts has them
}

// NewTables keeps tables within the limits of opt.
func NewTables(model Enforcer, opt TableOptions) *Tables {
	turns := newTurns(opt.Workers)
	t := newTables(model, opt, turns)
	t.inAudit = newTables(model, opt, turns)
	return t
}

func newTables(model Enforcer, opt TableOptions, turns *turns) *Tables {
	if opt.Waiting <= 0 {
		opt.Waiting = 64
	}
	if opt.CacheBytes <= 0 {
		opt.CacheBytes = 64 << 20
	}
	return &Tables{
		model: model, opt: datapath.Options{Capacity: opt.Capacity, Levels: opt.Levels, Steps: opt.Steps}, rooms: newRooms(opt.Waiting), turns: turns, bytes: opt.CacheBytes,
		projects: map[uuid.UUID]*projectTables{}, flights: map[policy.NodeID]*flight{},
		lists: newKeeper[inProject, *follower](opt.CacheBytes), made: newKeeper[tableKey, *Table](opt.CacheBytes), heads: newKeeper[projector.HeadRef, keptHead](opt.CacheBytes),
		lost: newRefusedLists(), refused: map[policy.NodeID]Refusal{}, outcomes: map[string]uint64{},
	}
}

// InAudit are the tables as they would be if policies in audit mode were in force.
// They share the workers of t, and nothing else.
func (t *Tables) InAudit() *Tables { return t.inAudit }

// BusyError says that too many requests wait for tables of a project already.
type BusyError struct{ Waiting int }

func (e *BusyError) Error() string {
	return fmt.Sprintf("%d requests wait for tables of the project already; try again", e.Waiting)
}

// Of is the table of node id; ok is false when there is no such node. The error
// is a *TableError when the table would be too large and there was none before,
// a *BusyError when too many wait, and what ended ctx. Nothing is computed any
// more for a ctx that ended, unless others wait for the same.
func (t *Tables) Of(ctx context.Context, id policy.NodeID) (a Answer, ok bool, err error) {
	e, ok, err := t.model.Enforcement(id)
	if err != nil {
		return Answer{}, false, err
	}
	if !ok {
		t.gone(id)
		return Answer{}, false, nil
	}
	a, known, err := t.known(e)
	project, generation := e.Node.Project, e.Generation
	if err = errors.Join(err, e.Close()); err == nil && !known {
		a, ok, err = t.ask(ctx, id, project, generation)
	}
	if err != nil {
		return Answer{}, false, fmt.Errorf("table of node %s: %w", id, err)
	}
	return a, ok, nil
}
