package snapshot

import (
	"errors"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// Comparison is what a change of one policy would do to flows of the nodes that the
// policy matches before the change, or after it.
type Comparison struct {
	Nodes    SomeNodes // that the policy matches, before or after
	Changed  SomeNodes // those of them of which a compared flow changes
	Skipped  SomeNodes // those that are not compared: a table is refused, or takes too much work
	Flows    uint64    // that were compared
	Denied   uint64    // allowed before, denied after
	Allowed  uint64    // denied before, allowed after
	Altered  uint64    // allowed before and after, with another proxy port or auth
	Sampled  bool      // there are more kinds of flows than were compared
	Examples []FlowChange
}

// FlowChange is a flow with another verdict.
type FlowChange struct {
	Node          policy.NodeID
	Direction     datapath.Direction
	Peer          string // a node's id, or an address that no node owns, or several do
	Protocol      datapath.Protocol
	Port          uint16         // 0 where the protocol has none
	Before, After datapath.Value // of the zero Rule where none decides
}

// maxExamples is how many flows are shown: of each pair of deciding rules one.
const maxExamples = 10

// Compare compares the flows of nodes before and after a content becomes the head of
// policy id; one without rules is a policy that is deleted. touched is of the
// selectors before and after. Nodes that enforce the same are looked at once. It takes
// no more steps than Foresee, and who is left then is skipped, those of the smallest
// crowds. Equal facts give equal answers. proceed is asked all along.
//
// The flows are drawn from the two tables: for each direction a peer of each kind that
// one of them answers otherwise, and an address that no rule names, each at one port
// of each range that no rule of either parts.
func (t *Tables) Compare(touched *projector.Touched, id uuid.UUID, content policy.Content, proceed func() error) (Comparison, error) {
	if len(touched.Sets) == 0 { // perhaps of a project that nobody used: nothing is kept of it
		return Comparison{}, nil
	}
	f, err := t.foresight(touched, id, content, proceed)
	if err != nil {
		return Comparison{}, err
	}
	crowds, err := f.crowds()
	if err != nil {
		return Comparison{}, err
	}
	c := &comparing{foresight: f, own: id.String(), shown: map[shownChange]bool{}}
	c.everybody()
	err = c.compare(crowds)
	if !touched.Whole || f.seen.Refused.More {
		c.done.Nodes.More, c.done.Changed.More, c.done.Skipped.More = true, true, true
	}
	return c.done, err
}

// comparing is one Compare on its way.
type comparing struct {
	*foresight
	own   string        // the policy's id
	all   []policy.Node // of the project, by id
	owned addressSet
	split []splitAddress
	done  Comparison
	shown map[shownChange]bool
}

// shownChange is equal for changes of which one example is enough.
type shownChange struct {
	direction     datapath.Direction
	verdict       [2]datapath.Verdict
	before, after datapath.Ref
}

func (c *comparing) everybody() {
	c.all = c.foresight.everybody()
	slices.SortFunc(c.all, func(a, b policy.Node) int { return strings.Compare(string(a.ID), string(b.ID)) })
	c.owned = addressesOf(c.all)
	c.split = splitAddresses(c.all)
}

// pair is the lists of nodes that enforce the same before, and the same after.
type pair struct {
	SomeNodes
	families      [2]bool // of their addresses
	before, after datapath.NodeList
}

func (c *comparing) compare(crowds []*crowd) error {
	pairs, err := c.pairs(crowds)
	if err != nil {
		return err
	}
	for i, p := range pairs {
		switch err := c.pair(p); {
		case errors.Is(err, errAllowance):
			for _, p := range pairs[i:] {
				c.skip(p.SomeNodes)
			}
			return nil
		case tooLarge(err):
			c.skip(p.SomeNodes)
		case err != nil:
			return err
		}
	}
	return nil
}

func (c *comparing) skip(s SomeNodes) { c.done.Skipped.add(s.Count, s.First...) }

// pairs are the lists of crowds, those of the most nodes first.
func (c *comparing) pairs(crowds []*crowd) (all []*pair, err error) {
	type pairName struct {
		before, after listName
		families      [2]bool
	}
	known := map[pairName]*pair{}
	for i, crowd := range crowds {
		if err := c.work.Rules(2 * crowd.rules); tooLarge(err) {
			for _, crowd := range crowds[i:] {
				c.done.Nodes.add(crowd.Count, crowd.First...)
				c.skip(crowd.SomeNodes)
			}
			break
		} else if err != nil {
			return nil, err
		}
		c.done.Nodes.add(crowd.Count, crowd.First...)
		before, after := datapath.List(crowd.node, crowd.before), datapath.List(crowd.node, crowd.after)
		if !c.differ(before, after) {
			continue
		}
		name := pairName{nameOf(before), nameOf(after), families(crowd.node)}
		p := known[name]
		if p == nil {
			p = &pair{families: name.families, before: before, after: after}
			known[name] = p
			all = append(all, p)
		}
		p.add(crowd.Count, crowd.First...)
	}
	slices.SortStableFunc(all, func(a, b *pair) int { return b.Count - a.Count })
	return all, nil
}

// differ reports whether two lists of a node may: they do not where no rule of the
// policy is in one of them, unless it was the one that was not plain.
func (c *comparing) differ(before, after datapath.NodeList) bool {
	own := func(r datapath.Rule) bool { return r.Ref.Policy == c.own }
	return before.Closed != after.Closed || slices.ContainsFunc(before.Rules, own) || slices.ContainsFunc(after.Rules, own)
}

// pair makes both tables and compares them. Both are made for the peers that one of
// them tells apart, so that these have the same names in both.
func (c *comparing) pair(p *pair) error {
	var population datapath.Population
	kinds := datapath.NewKinds(slices.Concat(p.before.Rules, p.after.Rules))
	err := c.within(func(w *datapath.Work) (err error) {
		population, err = kinds.Sort(c.all, w)
		return err
	})
	if err != nil {
		return err
	}
	f := &flows{comparing: c, pair: p, known: map[[2]datapath.Answers]*flowPeer{}}
	for i, list := range []datapath.NodeList{p.before, p.after} {
		err := c.within(func(w *datapath.Work) (err error) {
			opt := c.opt
			opt.Work, opt.Closed = w, list.Closed
			f.tables[i], err = datapath.Build(list.Rules, population.Identities, opt)
			return err
		})
		if err != nil {
			return err
		}
	}
	f.meet(population)
	f.meetSplit(kinds)
	return f.compare()
}
