package snapshot

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/compiler"
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

// projectTables are the tables of one generation of a project.
type projectTables struct {
	project    uuid.UUID
	generation uint64
	roster     *roster // nil: not yet known
	// before is the roster of an earlier generation, from which this one's follows;
	// nil: there is none.
	before  *roster
	since   uint64 // the generation of before
	answers map[policy.NodeID]answered
	older   *keeper[listKey, *listState] // of older moments
	then    map[uint64]*roster           // of older moments
}

// answered is what a node was answered in a generation.
type answered struct {
	table   tableKey
	sum     contents
	assumed []datapath.Assumption
	refused *Refusal
	none    error // a *TableError
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
		refused: map[policy.NodeID]Refusal{}, outcomes: map[string]uint64{},
	}
}

// InAudit are the tables as they would be if policies in audit mode were in force.
// They share the workers of t, and nothing else.
func (t *Tables) InAudit() *Tables { return t.inAudit }

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

// Plain reports whether only plain policies match a node, or none, but for those in
// audit mode. It makes no table.
func (t *Tables) Plain(id policy.NodeID) (plain bool, err error) {
	extended, err := matches(t, id, func(r policy.Revision) bool { return !r.Order.Audit && r.Content().Extended() })
	return !extended, err
}

// Audited reports whether a policy in audit mode matches a node. It makes no table.
func (t *Tables) Audited(id policy.NodeID) (bool, error) {
	return matches(t, id, func(r policy.Revision) bool { return r.Order.Audit })
}

// matches reports whether one of a node's policies is as is asks.
func matches(t *Tables, id policy.NodeID, is func(policy.Revision) bool) (_ bool, err error) {
	e, ok, err := t.model.Enforcement(id)
	if !ok || err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	for _, ref := range e.Matched {
		r, err := t.head(e, ref)
		if err != nil {
			return false, err
		}
		if is(r.Revision) {
			return true, nil
		}
	}
	return false, nil
}

// job is a computation of tables on its way.
type job struct {
	*turn
	// allowed is how many steps it may still take; below 0: each table what a table
	// may.
	allowed int
}

// errAllowance: a table would take more steps than its job may.
var errAllowance = errors.New("the table takes more work than is allowed here")

// work is that of one table.
func (t *Tables) work(j *job) *datapath.Work {
	return datapath.NewWork(t.steps(j), j.proceed)
}

// worked takes what a table took from what its job may.
func (t *Tables) worked(j *job, w *datapath.Work, err error) error {
	t.mu.Lock()
	t.spent += uint64(w.Steps())
	t.mu.Unlock()
	if j.allowed < 0 {
		return err
	}
	was := j.allowed
	j.allowed = max(0, j.allowed-w.Steps())
	var work *datapath.WorkError
	if errors.As(err, &work) && was < t.opt.Budget() {
		return errAllowance
	}
	return err
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

// keepThen keeps a roster of an older moment, and few of them.
func (p *projectTables) keepThen(seq uint64, r *roster) {
	if len(p.then) >= 4 {
		clear(p.then)
	}
	p.then[seq] = r
}

// list is what a node enforces of some policies, with the first assumption of
// each.
func (t *Tables) list(w *datapath.Work, e *projector.Enforcement, refs []projector.HeadRef) (nodeList, error) {
	heads, of := make([]datapath.Head, len(refs)), make(map[string]contents, len(refs))
	for i, ref := range refs {
		r, err := t.head(e, ref)
		if err != nil {
			return nodeList{}, err
		}
		if err := w.Rules(len(r.Rules)); err != nil {
			return nodeList{}, err
		}
		heads[i], of[ref.Policy.String()] = datapath.Head{Policy: ref.Policy, Revision: r.Revision}, r.sum
		if t.inAudit == nil {
			heads[i] = heads[i].Enforced()
		}
	}
	list := nodeList{datapath.List(e.Node, heads), of}
	list.Assumed = slices.CompactFunc(list.Assumed, func(a, b datapath.Assumption) bool { return a.Rule.Policy == b.Rule.Policy })
	return list, nil
}

// keptHead is a revision that nodes have, and a sum of its policy and of all that it
// says. Its id is not enough: one that was staged and aborted may come again as another.
type keptHead struct {
	policy.Revision
	sum contents
}

// head reads the head revision of a policy, which is kept.
func (t *Tables) head(e *projector.Enforcement, ref projector.HeadRef) (r keptHead, err error) {
	t.mu.Lock()
	r, known := t.heads.get(ref)
	t.mu.Unlock()
	if known {
		return r, nil
	}
	r.Revision, err = e.Revision(ref)
	if err != nil {
		return r, err
	}
	r.sum = sha256.Sum256(policy.Append(nil, policy.RevisionCreated{Policy: ref.Policy, Revision: r.Revision}))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.heads.put(ref, r, bytesPerRule*len(r.Rules))
	return r, nil
}

// bytesPerRule is about what a rule takes in memory.
const bytesPerRule = 400

// place is where the tables of e's project are, at its generation; what an older
// one has found is let go. A reader that is late gets a place that nobody else
// looks at.
func (t *Tables) place(e *projector.Enforcement) *projectTables {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.projects[e.Node.Project]
	if p != nil && p.generation == e.Generation {
		return p
	}
	next := &projectTables{
		project: e.Node.Project, generation: e.Generation, answers: map[policy.NodeID]answered{},
		older: newKeeper[listKey, *listState](t.bytes), then: map[uint64]*roster{},
	}
	if p != nil && p.generation > e.Generation {
		return next
	}
	if p != nil {
		if next.before, next.since = p.roster, p.generation; p.roster == nil {
			next.before, next.since = p.before, p.since
		}
	}
	t.projects[e.Node.Project] = next
	return next
}

// nodes finds out who the nodes of a generation are: from those of the one before
// and what happened since, or else from the read model.
func (t *Tables) nodes(p *projectTables, e *projector.Enforcement, proceed func() error) error {
	t.mu.Lock()
	known, r := p.roster != nil, p.before
	t.mu.Unlock()
	if known {
		return nil
	}
	if r != nil {
		if list, whole := e.ChangesAbove(p.since); whole {
			r, _ = r.follow(list)
		} else {
			r = nil
		}
	}
	if r == nil {
		var err error
		if r, err = newRoster(e.Nodes(), e.Generation, proceed); err != nil {
			return err
		}
	}
	t.keepRoster(p, r)
	return nil
}

// keepRoster keeps the roster of a generation: the first that somebody had.
func (t *Tables) keepRoster(p *projectTables, r *roster) *roster {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.roster == nil {
		p.roster, p.before = r, nil
	}
	return p.roster
}

// bytesPerEntry is about what an entry takes, with its share of an identity.
const bytesPerEntry = 64

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
// anybody asked for.
func (t *Tables) RefusedNodes() int {
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
