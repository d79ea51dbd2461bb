package snapshot

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// Watched is the read model as a Watch sees it; *projector.Projector is one.
type Watched interface {
	Enforcer
	ChangesAbove(above uint64) (list []projector.Change, seq uint64, whole bool)
	ProjectSnapshot(project uuid.UUID, above uint64, pick projector.Pick) (*projector.ProjectSnapshot, bool)
	Extended() (map[uuid.UUID][]uuid.UUID, error)
	Home(id policy.NodeID) (project uuid.UUID, changed uint64, ok bool)
}

// Watch says which of the nodes that somebody here listens for have another
// table, and no row that says so (docs/design.md#delivery). It looks at nodes
// that a policy gives something of ordered policy, and at those whose reader enforces
// tables. The others cost it nothing.
type Watch struct {
	model   Watched
	tables  *Tables
	log     *slog.Logger
	due     chan struct{}
	ordered extensions // for Ordered
	at      atomic.Uint64

	mu        sync.Mutex
	followers map[policy.NodeID]followers
	joined    map[policy.NodeID]uint64 // since the Look before, each with the lowest place
	left      map[policy.NodeID]bool   // followed by fewer than at the Look before

	// What follows is Look's alone.
	seq      uint64 // everything up to it was looked at
	started  bool
	extended map[uuid.UUID]map[uuid.UUID]bool // policies, by project
	projects map[uuid.UUID]*watched           // that have nodes that are followed
	homes    map[policy.NodeID]uuid.UUID
}

// followers of a node, and how many of them enforce tables.
type followers struct{ all, tables int }

// NewWatch watches tables.
func NewWatch(model Watched, tables *Tables, log *slog.Logger) *Watch {
	return &Watch{
		model: model, tables: tables, log: log, due: make(chan struct{}, 1),
		followers: map[policy.NodeID]followers{}, joined: map[policy.NodeID]uint64{}, left: map[policy.NodeID]bool{},
		projects: map[uuid.UUID]*watched{}, homes: map[policy.NodeID]uuid.UUID{},
	}
}

// Follow says that somebody here listens for a node, who needs no message about what
// log events up to a sequence did to its table. tables: he enforces tables,
// whatever the node's policies. It takes no lock of the model. Call the result
// when he is gone.
func (w *Watch) Follow(node policy.NodeID, tables bool, at uint64) (unfollow func()) {
	w.mu.Lock()
	f := w.followers[node]
	f.all++
	if tables {
		f.tables++
	}
	w.followers[node] = f
	if lowest, ok := w.joined[node]; !ok || at < lowest {
		w.joined[node] = at
	}
	w.mu.Unlock()
	select {
	case w.due <- struct{}{}:
	default:
	}
	return sync.OnceFunc(func() { w.unfollow(node, tables) })
}

func (w *Watch) unfollow(node policy.NodeID, tables bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.followers[node]
	f.all--
	if tables {
		f.tables--
	}
	w.left[node] = true
	if w.followers[node] = f; f.all == 0 {
		delete(w.followers, node)
	}
}

// Due has a value when somebody came since the Look before.
func (w *Watch) Due() <-chan struct{} { return w.due }

// Seq is the log sequence up to which everything was looked at.
func (w *Watch) Seq() uint64 { return w.at.Load() }

// Look looks at what happened since the Look before. It returns the nodes whose
// tables events up to seq changed: all are announced to every listener; asked are
// announced only to listeners that enforce tables, because the node's policies are
// plain. After an error the next Look returns what this one did not. One goroutine
// calls it. It ends with ctx.
//
// A look makes only a few tables of a project. Other nodes are returned if their
// tables may have changed, so that no project holds up the others.
func (w *Watch) Look(ctx context.Context) (seq uint64, all, asked []policy.NodeID, err error) {
	for range 3 {
		if seq, all, asked, err = w.look(ctx); !errors.Is(err, errForgotten) {
			break
		}
	}
	return seq, all, asked, err
}

// errForgotten: the model was folded faster than it remembers.
var errForgotten = errors.New("what changed since is not remembered")

func (w *Watch) look(ctx context.Context) (seq uint64, all, asked []policy.NodeID, err error) {
	list, seq, whole := w.model.ChangesAbove(w.seq)
	due := map[uuid.UUID]bool{}
	if !w.started || !whole || seq < w.seq {
		if seq, err = w.begin(); err != nil {
			return 0, nil, nil, err
		}
		list = nil
		for id := range w.projects {
			due[id] = true
		}
	}
	w.started = false // until all of it is looked at
	w.meet(due)
	note(w.extended, list)
	for _, t := range list {
		due[t.Project] = true
	}
	// Those nobody follows: also projects whose last listener left just now.
	maps.DeleteFunc(due, func(id uuid.UUID, _ bool) bool { return w.projects[id] == nil })
	look := look{Watch: w, ctx: ctx}
	for _, id := range slices.SortedFunc(maps.Keys(due), func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) }) {
		if err := look.project(id); err != nil {
			return 0, nil, nil, err
		}
	}
	w.seq, w.started = seq, true
	w.at.Store(seq)
	for id := range due {
		clear(w.projects[id].fresh)
	}
	look.report()
	slices.Sort(look.all)
	slices.Sort(look.asked)
	return seq, look.all, look.asked, nil
}

// begin forgets all tables: every node is looked at as one that came now, with
// what it was sent so far.
func (w *Watch) begin() (seq uint64, err error) {
	_, seq, _ = w.model.ChangesAbove(w.seq)
	if w.extended, err = extendedOf(w.model); err != nil {
		return 0, err
	}
	for _, p := range w.projects {
		p.forget()
		for id := range p.here {
			if _, fresh := p.fresh[id]; !fresh {
				p.fresh[id] = w.seq
			}
		}
	}
	return seq, nil
}

// meet takes up who came and who went, and notes whose projects are to be looked
// at.
func (w *Watch) meet(due map[uuid.UUID]bool) {
	w.mu.Lock()
	joined, left := w.joined, w.left
	w.joined, w.left = map[policy.NodeID]uint64{}, map[policy.NodeID]bool{}
	now := make(map[policy.NodeID]followers, len(joined)+len(left))
	for id := range joined {
		now[id] = w.followers[id]
	}
	for id := range left {
		now[id] = w.followers[id]
	}
	w.mu.Unlock()
	for id := range left {
		if p := w.projects[w.homes[id]]; p != nil {
			w.leave(p, id, now[id])
		}
	}
	for id, at := range joined {
		if now[id].all == 0 {
			continue
		}
		home, changed, ok := w.model.Home(id)
		if !ok { // it may come yet
			w.mu.Lock()
			w.joined[id] = min(at, or(w.joined, id, at))
			w.mu.Unlock()
			continue
		}
		p := w.projects[home]
		if p == nil {
			p = newWatched()
			w.projects[home] = p
		}
		w.homes[id] = home
		p.follow(id, now[id].tables > 0)
		if changed > at || p.here[id] || w.extended[home] != nil {
			p.fresh[id] = min(at, or(p.fresh, id, at))
			due[home] = true
		}
	}
}

// or is what a map holds, or else.
func or(m map[policy.NodeID]uint64, id policy.NodeID, otherwise uint64) uint64 {
	if v, ok := m[id]; ok {
		return v
	}
	return otherwise
}

// leave notes that fewer follow a node.
func (w *Watch) leave(p *watched, id policy.NodeID, f followers) {
	if f.all > 0 {
		p.follow(id, f.tables > 0)
		if base := p.nodes[id]; base != nil && !base.ordered && f.tables == 0 {
			p.drop(id)
		}
		return
	}
	p.drop(id)
	p.unfollow(id)
	delete(p.fresh, id)
	if len(p.here) == 0 {
		delete(w.projects, w.homes[id])
	}
	delete(w.homes, id)
}

// Ordered reports whether a node has a policy with anything of ordered policy, or had
// one at a sequence or later that still matches it: changes of such a
// node's table are announced to every listener. A policy that matches no longer is
// announced by its row.
func (w *Watch) Ordered(id policy.NodeID, after uint64) (yes bool, err error) {
	e, ok, err := w.model.Enforcement(id)
	if !ok || err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	if yes, err = w.ordered.any(w.model, e); yes || err != nil {
		return yes, err
	}
	return e.WasExtended(after)
}

// extensions are the policies that have anything of ordered policy, by project, for
// many goroutines.
type extensions struct {
	mu       sync.Mutex
	seq      uint64
	policies map[uuid.UUID]map[uuid.UUID]bool
}

// any reports whether one of them matches a node.
func (x *extensions) any(model Watched, e *projector.Enforcement) (bool, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	list, seq, whole := model.ChangesAbove(x.seq)
	if x.policies == nil || !whole || seq < x.seq {
		found, err := extendedOf(model)
		if err != nil {
			return false, err
		}
		x.policies, list = found, nil // what comes above seq is noted again
	}
	note(x.policies, list)
	x.seq = seq
	return matched(x.policies[e.Node.Project], e.Matched), nil
}

func matched(policies map[uuid.UUID]bool, heads []projector.HeadRef) bool {
	return len(policies) > 0 && slices.ContainsFunc(heads, func(h projector.HeadRef) bool { return policies[h.Policy] })
}

// extendedOf reads which policies matter.
func extendedOf(model Watched) (map[uuid.UUID]map[uuid.UUID]bool, error) {
	found, err := model.Extended()
	if err != nil {
		return nil, err
	}
	out := map[uuid.UUID]map[uuid.UUID]bool{}
	for project, policies := range found {
		out[project] = map[uuid.UUID]bool{}
		for _, id := range policies {
			out[project][id] = true
		}
	}
	return out, nil
}

// note notes which policies matter from now on. What it meets again changes
// nothing.
func note(extended map[uuid.UUID]map[uuid.UUID]bool, list []projector.Change) {
	for _, t := range list {
		switch {
		case t.Extended:
			if extended[t.Project] == nil {
				extended[t.Project] = map[uuid.UUID]bool{}
			}
			extended[t.Project][t.Policy] = true
		case t.Policy != uuid.Nil:
			delete(extended[t.Project], t.Policy)
			if len(extended[t.Project]) == 0 {
				delete(extended, t.Project)
			}
		}
	}
}
