package snapshot

import (
	"math"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/internal/projector"
)

// inProject is a list of one project.
type inProject struct {
	project uuid.UUID
	list    listKey
}

// at is what a node's list comes to as some policies and the nodes stood at a
// moment, and the steps that it takes to make from the start. The error is not of
// the table: it could not be looked at.
//
// What a table is made of and the table are work of their own, each within the
// budget. What it came to before is brought up to date where a few nodes moved
// since; whether it is too much work does not hang on that.
func (t *Tables) at(j *job, p *projectTables, e *projector.Enforcement, refs []projector.HeadRef, seq uint64) (s *listState, steps int, assumed []datapath.Assumption, err error) {
	w := t.work(j)
	list, err := t.list(w, e, refs)
	listed, f := w.Steps(), (*follower)(nil)
	var rules contents
	if err == nil {
		rules = sumOf(list)
		key := keyOf(rules, seq)
		if s = t.stands(j, p, key, seq); s == nil {
			f, err = sortNodes(j, w, p.roster.at(seq), list.NodeList, key)
		} else if listed+s.sorting > t.opt.Budget() {
			err = &datapath.WorkError{Steps: t.opt.Budget()}
		}
	}
	if err = t.worked(j, w, err); tooLarge(err) {
		return &listState{err: err}, w.Steps(), list.Assumed, nil
	}
	if err == nil && s == nil {
		s, err = t.begin(j, p, f, list.NodeList, rules, seq)
	}
	if err != nil {
		return nil, 0, nil, err
	}
	return s, listed + s.sorting + s.building, list.Assumed, nil
}

// stands is what is in memory of a list and can be brought up to date; nil: it is
// to be made.
func (t *Tables) stands(j *job, p *projectTables, key listKey, seq uint64) *listState {
	at := inProject{p.project, key}
	t.mu.Lock()
	if seq != present {
		s, _ := p.older.get(key)
		t.mu.Unlock()
		return s
	}
	f, known := t.lists.get(at)
	t.mu.Unlock()
	if !known {
		return nil
	}
	w := datapath.NewWork(min(t.steps(j), stepsAtOnce), nil)
	s, ok := f.to(p.roster, w)
	_ = t.worked(j, w, nil)
	if !ok {
		return nil
	}
	if w.Steps() > 0 {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.lists.put(at, f, s.bytes())
	}
	return s
}

// sortNodes begins to follow a list: its members are there, and no table.
func sortNodes(j *job, w *datapath.Work, r *roster, list datapath.NodeList, key listKey) (*follower, error) {
	s := &listState{list: key, rules: len(list.Rules), kinds: datapath.NewKinds(list.Rules), roster: r, members: make([]*memberPage, len(r.pages))}
	f := &follower{census: s.kinds.Census(), now: s}
	seen := 0
	for i, page := range r.pages {
		var members []member
		for _, x := range page {
			kind, err := f.census.Come(x.Node, w)
			if err != nil {
				return nil, err
			}
			if kind != nil {
				members = append(members, member{x, kind})
			}
		}
		if len(members) > 0 {
			s.members[i] = &memberPage{members: members}
		}
		if seen += len(page); seen >= 1024 {
			seen = 0
			if err := j.proceed(); err != nil {
				return nil, err
			}
		}
	}
	f.census.Settled()
	s.sorting = f.census.Steps()
	return f, nil
}

// begin makes the table of a list whose nodes are sorted, and keeps it.
func (t *Tables) begin(j *job, p *projectTables, f *follower, list datapath.NodeList, rules contents, seq uint64) (*listState, error) {
	s, ids := f.now, f.census.Identities()
	key := refusedKeyOf(p.project, rules, ids)
	if r, known := t.lost.get(key); known {
		s.err, s.building = r.err, r.steps
	} else {
		state, err := t.build(j, s, list, ids)
		if err != nil {
			return nil, err
		}
		if s.err != nil {
			t.lost.put(key, refusedList{s.err, s.building})
		}
		f.state = state
	}
	if s.err != nil {
		f.state, f.census, s.members = nil, nil, make([]*memberPage, len(s.members))
	} else {
		s.table, f.base = f.state.Table(), baseOf(f.state.Table())
		sums := summer{table: s.table, of: map[string]contents{}}
		for _, page := range s.members {
			if page != nil {
				page.sum = sums.page(page.members)
			}
		}
		s.sum = s.summed(f.base)
	}
	t.keep(p, f, s, seq)
	return s, nil
}

// build makes the table of a list from the start, and notes in s what it takes and
// whether it is refused.
func (t *Tables) build(j *job, s *listState, list datapath.NodeList, ids []datapath.Identity) (*datapath.State, error) {
	opt := t.opt
	opt.Work, opt.Closed = t.work(j), list.Closed
	state := datapath.NewState(opt)
	err := state.Advance(datapath.Batch{AddRules: list.Rules, AddIdentities: ids})
	s.building = opt.Work.Steps()
	if err = t.worked(j, opt.Work, err); err != nil && !tooLarge(err) {
		return nil, err
	}
	s.err = err
	return state, nil
}

// keep keeps what a list comes to, unless somebody has it of a later moment.
func (t *Tables) keep(p *projectTables, f *follower, s *listState, seq uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if seq != present {
		p.older.put(s.list, s, s.bytes())
		return
	}
	at := inProject{p.project, s.list}
	if other, known := t.lists.get(at); !known || other.seq() <= s.roster.seq {
		t.lists.put(at, f, s.bytes())
	}
}

// let lets go of lists that nobody has any more who is looked after.
func (t *Tables) let(p *projectTables, lists []listKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, key := range lists {
		t.lists.drop(inProject{p.project, key})
	}
}

// seq is that of the roster that the list is followed to.
func (f *follower) seq() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now.roster.seq
}

// steps is how many one table may take.
func (t *Tables) steps(j *job) int {
	if j.allowed < 0 {
		return t.opt.Budget()
	}
	return min(t.opt.Budget(), j.allowed)
}

// present is the moment of a table that leaves out nothing.
const present = math.MaxUint64
