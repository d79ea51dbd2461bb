package snapshot

import (
	"errors"
	"slices"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/internal/compiler/firstmatch"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// Foreseen is what a revision would do to nodes that it matches, beside what its
// rules say.
type Foreseen struct {
	// Closed are the nodes that would deny what no rule decides, and allow it now:
	// for egress, for ingress.
	Closed [2]SomeNodes
	// Opened are the nodes that would allow what no rule decides, and deny it now.
	Opened [2]SomeNodes
	// Refused are the nodes whose table would be refused; Why is of the first of them.
	Refused SomeNodes
	Why     error
	// LeftOut are the nodes whose resolved block would leave allows out, because it
	// would have too many rules.
	LeftOut SomeNodes
}

// SomeNodes counts nodes and names the first few by id. More: there may be others,
// which were not looked at.
type SomeNodes struct {
	Count int
	First []policy.NodeID
	More  bool
}

// maxNamed is how many nodes are named.
const maxNamed = 3

func (s *SomeNodes) add(count int, first ...policy.NodeID) {
	s.Count += count
	for _, id := range first {
		if len(s.First) < maxNamed || id < s.First[maxNamed-1] {
			i, _ := slices.BinarySearch(s.First, id)
			s.First = slices.Insert(s.First, i, id)
			s.First = s.First[:min(len(s.First), maxNamed)]
		}
	}
}

// Foresee looks at the nodes that a content matches, which would become the head of
// policy id, with touched of its selector. What nodes of one label set enforce is
// found out once for those whose addresses lie in the same CIDRs. All the lists take
// no more steps than a table may, and the tables no more than two: who is left then is
// not looked at, those of the smallest crowds. proceed is asked all along.
func (t *Tables) Foresee(touched *projector.Touched, id uuid.UUID, content policy.Content, proceed func() error) (Foreseen, error) {
	if len(touched.Sets) == 0 { // perhaps of a project that nobody used: nothing is kept of it
		return Foreseen{}, nil
	}
	f, err := t.foresight(touched, id, content, proceed)
	if err != nil {
		return Foreseen{}, err
	}
	crowds, err := f.crowds()
	if err != nil {
		return Foreseen{}, err
	}
	err = f.lists(crowds)
	if err == nil {
		err = f.tables(crowds)
	}
	if !touched.Whole {
		f.seen.more()
	}
	return f.seen, err
}

func (t *Tables) foresight(touched *projector.Touched, id uuid.UUID, content policy.Content, proceed func() error) (*foresight, error) {
	p := t.place(touched.Enforcement)
	if err := t.nodes(p, touched.Enforcement, proceed); err != nil {
		return nil, err
	}
	return &foresight{
		Tables: t, touched: touched, proceed: proceed, nodes: p.roster,
		draft: datapath.Head{Policy: id, Revision: policy.Revision{Selector: content.Selector, Order: content.Order, Rules: content.Rules}},
		revs:  map[projector.HeadRef]datapath.Head{},
		work:  datapath.NewWork(t.opt.Budget(), proceed),
		left:  2 * t.opt.Budget(),
	}, nil
}

// more notes that there are nodes which were not looked at.
func (s *Foreseen) more() {
	s.moreDefaults()
	s.Refused.More, s.LeftOut.More = true, true
}

func (s *Foreseen) moreDefaults() {
	for d := range s.Closed {
		s.Closed[d].More, s.Opened[d].More = true, true
	}
}

// foresight is one Foresee on its way.
type foresight struct {
	*Tables
	touched *projector.Touched
	proceed func() error
	nodes   *roster
	draft   datapath.Head
	revs    map[projector.HeadRef]datapath.Head
	work    *datapath.Work // of lists
	left    int            // steps that tables may still take
	seen    Foreseen
}

// lists finds out for whom a direction would close or open.
func (f *foresight) lists(crowds []*crowd) error {
	for _, c := range crowds {
		if err := f.work.Rules(c.rules); tooLarge(err) {
			f.seen.moreDefaults()
			return nil
		} else if err != nil {
			return err
		}
		was, is := closes(datapath.List(c.node, c.before)), closes(datapath.List(c.node, c.after))
		for d := range is {
			switch {
			case is[d] && !was[d]:
				f.seen.Closed[d].add(c.Count, c.First...)
			case was[d] && !is[d]:
				f.seen.Opened[d].add(c.Count, c.First...)
			}
		}
	}
	return nil
}

// tables finds out whose table would be refused: a list that crowds share is made
// once, for as long as there are steps.
func (f *foresight) tables(crowds []*crowd) error {
	made, all := map[listName]*foreseenTable{}, f.everybody()
	for _, c := range crowds {
		var list datapath.NodeList
		err := f.within(func(w *datapath.Work) error {
			err := w.Rules(c.rules)
			list = datapath.List(c.node, c.after)
			return err
		})
		if err == nil {
			name := nameOf(list)
			t, known := made[name]
			if !known {
				t = f.table(list, all)
				made[name] = t
			}
			if err = t.refused; err == nil && t.leavesOut(c) {
				f.seen.LeftOut.add(c.Count, c.First...)
			}
		}
		switch {
		case errors.Is(err, errAllowance):
			f.seen.Refused.More, f.seen.LeftOut.More = true, true
			return nil
		case tooLarge(err):
			if f.seen.Why == nil {
				f.seen.Why = err
			}
			f.seen.Refused.add(c.Count, c.First...)
		case err != nil:
			return err
		}
	}
	return nil
}

// foreseenTable is the table of a list, or why it is refused.
type foreseenTable struct {
	refused error
	first   *firstmatch.List
}

// leavesOut reports whether the resolved block of a crowd's node would leave allows
// out.
func (t *foreseenTable) leavesOut(c *crowd) bool {
	plain := datapath.Plain(c.after) && firstmatch.Faithful(c.node, c.after)
	return !plain && len(c.node.Addresses) > 0 && t.first.TooLarge(c.node.Addresses)
}

// table makes the table of a list.
func (f *foresight) table(list datapath.NodeList, all []policy.Node) *foreseenTable {
	var population datapath.Population
	err := f.within(func(w *datapath.Work) (err error) {
		population, err = datapath.NewKinds(list.Rules).Sort(all, w)
		return err
	})
	if err != nil {
		return &foreseenTable{refused: err}
	}
	t := new(foreseenTable)
	t.refused = f.within(func(w *datapath.Work) error {
		opt := f.opt
		opt.Work, opt.Closed = w, list.Closed
		table, err := datapath.Build(list.Rules, population.Identities, opt)
		if err == nil {
			t.first = firstmatch.Of(table, membersOf(population))
		}
		return err
	})
	return t
}

// within does a part of a table, with as many steps as it may take; errAllowance:
// fewer are left, and they are not enough.
func (f *foresight) within(part func(w *datapath.Work) error) error {
	allowed := min(f.left, f.opt.Budget())
	w := datapath.NewWork(allowed, f.proceed)
	err := part(w)
	f.left -= w.Steps()
	f.mu.Lock()
	f.spent += uint64(w.Steps())
	f.mu.Unlock()
	var work *datapath.WorkError
	if errors.As(err, &work) && allowed < f.opt.Budget() {
		return errAllowance
	}
	return err
}

// everybody are the nodes of the project.
func (f *foresight) everybody() []policy.Node {
	all := make([]policy.Node, 0, f.nodes.nodes)
	for n := range f.nodes.all() {
		all = append(all, n.Node)
	}
	return all
}

// closes reports for egress and ingress whether what no rule decides is denied.
func closes(list datapath.NodeList) (closed [2]bool) {
	if list.Closed {
		return [2]bool{true, true}
	}
	for i := range list.Rules {
		if r := &list.Rules[i]; r.ClosesDefault() {
			closed[r.Direction-datapath.Egress] = true
		}
	}
	return closed
}
