package snapshot

import (
	"context"
	"errors"
	"fmt"
	"math"
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
	// CacheBytes bounds the tables kept in memory, and again the revisions that they
	// are made of; 0: 64 MiB.
	CacheBytes int
}

// Tables makes the tables of nodes (docs/design.md#ordered-policy) and keeps those used last.
// Nodes that enforce the same list share one. A table is made again when a node
// or a policy of the project has changed since what it is made of, and only then;
// who asks for it meanwhile waits for the same. Projects share the workers that
// make them. Safe for concurrent use.
type Tables struct {
	model   Enforcer
	opt     datapath.Options
	waiting int
	turns   *turns

	mu       sync.Mutex
	projects map[uuid.UUID]*projectTables
	flights  map[policy.NodeID]*flight
	waits    map[uuid.UUID]int // requests that wait, by project
	made     *keeper[tableKey, madeTable]
	heads    *keeper[projector.HeadRef, policy.Revision]
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
	answers    map[policy.NodeID]answered
	keys       map[listKey]named
	then       map[uint64]*roster // of older moments

	reading sync.Mutex // held by who reads the roster
	roster  *roster
}

// answered is what a node was answered in a generation.
type answered struct {
	table   tableKey
	assumed []datapath.Assumption
	refused *Refusal
	none    error // a *TableError
}

// madeTable is a table, or why there is none, and the steps that it took.
type madeTable struct {
	*Table
	err   error
	rules int
	steps int
}

// NewTables keeps tables within the limits of opt.
func NewTables(model Enforcer, opt TableOptions) *Tables {
	if opt.Waiting <= 0 {
		opt.Waiting = 64
	}
	if opt.CacheBytes <= 0 {
		opt.CacheBytes = 64 << 20
	}
	return &Tables{
		model: model, opt: datapath.Options{Capacity: opt.Capacity, Levels: opt.Levels, Steps: opt.Steps}, waiting: opt.Waiting, turns: newTurns(opt.Workers),
		projects: map[uuid.UUID]*projectTables{}, flights: map[policy.NodeID]*flight{}, waits: map[uuid.UUID]int{},
		made: newKeeper[tableKey, madeTable](opt.CacheBytes), heads: newKeeper[projector.HeadRef, policy.Revision](opt.CacheBytes),
		refused: map[policy.NodeID]Refusal{}, outcomes: map[string]uint64{},
	}
}

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
	steps := t.opt.Budget()
	if j.allowed >= 0 {
		steps = min(steps, j.allowed)
	}
	return datapath.NewWork(steps, j.proceed)
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
	made, ok := t.made.get(x.table)
	a = Answer{Table: made.Table, Node: e.Node, Seq: e.Seq, Refused: x.refused, Assumed: x.assumed, roster: p.roster}
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
	nodes, err := p.nodes(j, e)
	if err != nil {
		return Answer{}, err
	}
	a = Answer{Node: e.Node, Seq: e.Seq, roster: nodes}
	made, key, assumed, err := t.at(j, p, e, e.Matched, present)
	if err != nil {
		return a, err
	}
	x := answered{table: key, assumed: assumed}
	if a.Table, a.Assumed = made.Table, assumed; made.err != nil {
		good, err := t.lastGood(j, p, e, made)
		if err != nil {
			return a, err
		}
		a.Refused = &Refusal{Node: e.Node.ID, Err: made.err, AsOf: good.AsOf}
		a.Table, a.then = good.table, good.roster
		if x.table, x.refused = good.key, a.Refused; good.table == nil || good.rules == 0 {
			x.none = &TableError{Node: e.Node.ID, Err: made.err}
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.answers[e.Node.ID] = x; a.Refused != nil {
		t.refused[e.Node.ID] = *a.Refused
		p.keepThen(a.Refused.AsOf, a.then)
	} else {
		delete(t.refused, e.Node.ID)
	}
	return a, x.none
}

// keepThen keeps a roster of an older moment, and few of them.
func (p *projectTables) keepThen(seq uint64, r *roster) {
	if len(p.then) >= 4 {
		clear(p.then)
	}
	p.then[seq] = r
}

// at is a node's table as some policies and the nodes stood at a moment. The
// error is not of the table: it could not be looked at.
//
// What it is made of and the table are work of their own, each within the budget:
// so whether a table is too much work does not hang on whether it is in memory.
func (t *Tables) at(j *job, p *projectTables, e *projector.Enforcement, refs []projector.HeadRef, seq uint64) (made madeTable, key tableKey, assumed []datapath.Assumption, err error) {
	w := t.work(j)
	rules, assumed, err := t.list(w, e, refs)
	var name named
	var sorted *sorted
	if err == nil {
		name, sorted, err = t.name(w, p, rules, seq)
	}
	if err = t.worked(j, w, err); tooLarge(err) {
		return madeTable{err: err, steps: w.Steps()}, key, assumed, nil
	}
	if err == nil {
		made, err = t.table(j, p, name.key, rules, seq, sorted)
		made.steps += name.steps
	}
	return made, name.key, assumed, err
}

// list is what a node enforces of some policies.
func (t *Tables) list(w *datapath.Work, e *projector.Enforcement, refs []projector.HeadRef) ([]datapath.Rule, []datapath.Assumption, error) {
	heads := make([]datapath.Head, len(refs))
	for i, ref := range refs {
		t.mu.Lock()
		r, known := t.heads.get(ref)
		t.mu.Unlock()
		if !known {
			var err error
			if r, err = e.Revision(ref); err != nil {
				return nil, nil, err
			}
			t.mu.Lock()
			t.heads.put(ref, r, bytesPerRule*len(r.Rules))
			t.mu.Unlock()
		}
		if err := w.Rules(len(r.Rules)); err != nil {
			return nil, nil, err
		}
		heads[i] = datapath.Head{Policy: ref.Policy, Revision: r}
	}
	rules, all := datapath.List(e.Node, heads)
	var assumed []datapath.Assumption
	for _, x := range all {
		if n := len(assumed); n == 0 || assumed[n-1].Rule.Policy != x.Rule.Policy {
			assumed = append(assumed, x)
		}
	}
	return rules, assumed, nil
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
		project: e.Node.Project, generation: e.Generation,
		answers: map[policy.NodeID]answered{}, keys: map[listKey]named{}, then: map[uint64]*roster{},
	}
	if p == nil || p.generation < e.Generation {
		t.projects[e.Node.Project] = next
	}
	return next
}

// nodes are read once a generation.
func (p *projectTables) nodes(j *job, e *projector.Enforcement) (*roster, error) {
	p.reading.Lock()
	defer p.reading.Unlock()
	if p.roster == nil {
		r, err := newRoster(e, j.proceed)
		if err != nil {
			return nil, err
		}
		p.roster = r
	}
	return p.roster, nil
}

// present is the moment of a table that leaves out nothing.
const present = math.MaxUint64

// table is the one of a name: in memory, or made of what the name was found by.
func (t *Tables) table(j *job, p *projectTables, key tableKey, rules []datapath.Rule, seq uint64, s *sorted) (made madeTable, err error) {
	t.mu.Lock()
	made, known := t.made.get(key)
	t.mu.Unlock()
	if known {
		return made, nil
	}
	if s == nil { // it was let go since
		if s, err = p.sort(datapath.NewWork(math.MaxInt, j.proceed), rules, seq); err != nil {
			return made, err
		}
	}
	opt := t.opt
	opt.Work = t.work(j)
	made.Table, err = newTable(s.kinds, s.population, rules, opt)
	made.rules, made.steps = len(rules), opt.Work.Steps()
	if err = t.worked(j, opt.Work, err); err != nil && !tooLarge(err) {
		return made, err
	}
	made.err = err
	t.mu.Lock()
	defer t.mu.Unlock()
	t.made.put(key, made, made.bytes())
	return made, nil
}

// bytes is about what a table takes in memory.
func (m madeTable) bytes() int {
	if m.Table == nil {
		return 0
	}
	return len(m.Body) + bytesPerRule*m.rules + bytesPerEntry*m.Len()
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
