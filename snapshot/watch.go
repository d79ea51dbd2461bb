package snapshot

import (
	"errors"
	"log/slog"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/edictdev/edict/compiler"
	"github.com/edictdev/edict/compiler/datapath"
	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/projector"
)

// Watched is the read model as a Watch sees it; *projector.Projector is one.
type Watched interface {
	Touched(above uint64) (list []projector.Touch, seq uint64, whole bool)
	Muster(project uuid.UUID, above uint64) (*projector.Muster, bool)
	Extended() (map[uuid.UUID][]uuid.UUID, error)
}

// Watch says which nodes' tables changed and not their rows (design section 8).
// It looks at nodes that one of their policies gives something of section 8;
// where there are none, it costs nothing. One goroutine uses it.
type Watch struct {
	model  Watched
	tables *Tables
	log    *slog.Logger

	seq      uint64 // everything up to it was looked at
	started  bool
	own      []bool
	extended map[uuid.UUID]map[uuid.UUID]bool // policies, by project
	projects map[uuid.UUID]*watched
}

// watched is a project with such policies, or nodes that had some.
type watched struct {
	seq     uint64 // the moment of all below
	changed uint64 // sequence of the last change
	facts   map[policy.NodeID]policy.Node
	nodes   map[policy.NodeID]*enforcing
	lists   map[listKey]*watchedList
}

// enforcing is a node with such a policy.
type enforcing struct {
	list        listKey
	rows        []projector.HeadRef
	fingerprint compiler.Fingerprint // of the table; zero: there is none
	refused     bool
}

// watchedList is what nodes of equal lists have in common.
type watchedList struct {
	kinds *datapath.Kinds
	// moves are the changes of nodes, since the Look before, that its table may
	// show.
	moves events
	own   map[policy.NodeID]int // how many, by node
	used  bool
}

// NewWatch watches tables.
func NewWatch(model Watched, tables *Tables, log *slog.Logger) *Watch {
	return &Watch{model: model, tables: tables, log: log}
}

// Look looks at the nodes of the partitions that told names, each with the log
// sequence up to which its nodes need no word. It returns those to be told of
// what events up to seq did: whose table is another than at the Look before, or
// may have been another in between, unless a row tells of it. Of a partition that
// is new, those are all nodes of projects that changed since it was told.
func (w *Watch) Look(told map[int]uint64, partitions int) (seq uint64, changed []policy.NodeID, err error) {
	list, seq, whole := w.model.Touched(w.seq)
	switch {
	case w.started && whole && seq >= w.seq:
	case whole && w.seq == 0: // everything there ever was
		w.extended, w.projects = map[uuid.UUID]map[uuid.UUID]bool{}, map[uuid.UUID]*watched{}
		w.own = slices.Repeat([]bool{true}, partitions)
	default:
		w.own = nil
		if seq, err = w.begin(); err != nil {
			return 0, nil, err
		}
	}
	w.started = false // until all of it is looked at
	look := look{Watch: w, had: w.own, own: make([]bool, partitions)}
	gained := false
	for p := range told {
		look.own[p] = true
		gained = gained || look.fresh(p)
	}
	w.matter(list)
	for _, project := range w.touched(list, gained) {
		if err := look.project(project); err != nil {
			return 0, nil, err
		}
	}
	w.own, w.seq, w.started = look.own, seq, true
	for p, upTo := range told {
		if look.fresh(p) {
			look.changed = append(look.changed, w.Since(p, upTo)...)
		}
	}
	look.report()
	return seq, look.changed, nil
}

// begin reads which policies matter.
func (w *Watch) begin() (seq uint64, err error) {
	_, seq, _ = w.model.Touched(w.seq)
	found, err := w.model.Extended()
	if err != nil {
		return 0, err
	}
	w.extended, w.projects = map[uuid.UUID]map[uuid.UUID]bool{}, map[uuid.UUID]*watched{}
	for project, policies := range found {
		w.extended[project] = map[uuid.UUID]bool{}
		for _, id := range policies {
			w.extended[project][id] = true
		}
	}
	return seq, nil
}

// matter notes which policies matter from now on. What it meets again changes
// nothing.
func (w *Watch) matter(list []projector.Touch) {
	for _, t := range list {
		switch {
		case t.Extended:
			if w.extended[t.Project] == nil {
				w.extended[t.Project] = map[uuid.UUID]bool{}
			}
			w.extended[t.Project][t.Policy] = true
		case t.Policy != uuid.Nil:
			delete(w.extended[t.Project], t.Policy)
			if len(w.extended[t.Project]) == 0 {
				delete(w.extended, t.Project)
			}
		}
	}
}

// touched are the projects to look at, in order.
func (w *Watch) touched(list []projector.Touch, all bool) []uuid.UUID {
	found := map[uuid.UUID]bool{}
	for _, t := range list {
		if w.projects[t.Project] != nil || w.extended[t.Project] != nil {
			found[t.Project] = true
		}
	}
	for project := range w.extended {
		if all || w.projects[project] == nil {
			found[project] = true
		}
	}
	for project := range w.projects {
		if all {
			found[project] = true
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
}

// Since are the nodes of a partition whose project changed above a sequence.
func (w *Watch) Since(partition int, seq uint64) []policy.NodeID {
	var out []policy.NodeID
	for _, p := range w.projects {
		if p.changed <= seq {
			continue
		}
		for id := range p.nodes {
			if id.Partition(len(w.own)) == partition {
				out = append(out, id)
			}
		}
	}
	return out
}

// tableOf is the fingerprint of what a node enforces.
func (w *Watch) tableOf(p *projectTables, e *projector.Enforcement) (fp compiler.Fingerprint, refused bool, err error) {
	a, err := w.tables.answer(p, e)
	var none *TableError
	switch {
	case errors.As(err, &none):
		return fp, true, nil
	case err != nil:
		return fp, false, err
	}
	return a.Fingerprint, a.Refused != nil, nil
}
