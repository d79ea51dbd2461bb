package gen

import (
	"fmt"
	"maps"
	"slices"
)

// Kind says what a step does.
type Kind string

// The kinds of step. Each stands for one event of the log.
const (
	Create   Kind = "create policy"
	Revise   Kind = "revise policy"
	Delete   Kind = "delete policy"
	Register Kind = "update node"
	Remove   Kind = "remove node"
)

// Step is one change of the world. It is always one that the fold accepts when
// the steps before it were taken.
type Step struct {
	Kind   Kind
	Why    string   // what a reader of a failure wants to know: "narrow", "there and back", …
	Slug   string   // of all but Register and Remove
	Policy Policy   // the whole policy after Create or Revise, or as it would be after Stage
	Node   Node     // the whole node after Register; the id alone for Remove
	Waves  []string // of Promote
	Wave   int      // of Open and Stop
	Abort  bool     // of Promote: a Stop ends it
}

// String names the step for a log line.
func (s Step) String() string {
	if s.Slug != "" {
		return fmt.Sprintf("%s %s (%s)", s.Kind, s.Slug, s.Why)
	}
	return fmt.Sprintf("%s %s (%s)", s.Kind, s.Node.ID, s.Why)
}

// History draws at least n steps from an empty world: first most of w's
// policies and nodes, in a drawn order, then changes of every sort.
func (g *Gen) History(w World, n int) []Step {
	h := &history{Gen: g, policies: map[string]Policy{}, nodes: map[string]Node{}}
	for _, p := range w.Policies {
		h.spare = append(h.spare, Step{Kind: Create, Why: "first", Slug: p.Slug, Policy: p})
	}
	for _, x := range w.Nodes {
		h.spare = append(h.spare, Step{Kind: Register, Why: "first", Node: x})
	}
	g.r.Shuffle(len(h.spare), func(i, j int) { h.spare[i], h.spare[j] = h.spare[j], h.spare[i] })
	for len(h.spare) > (len(w.Policies)+len(w.Nodes))/8 {
		h.next()
	}
	for len(h.steps) < n {
		h.change()
	}
	return h.steps
}

type history struct {
	*Gen
	spare    []Step
	steps    []Step
	policies map[string]Policy // by slug
	nodes    map[string]Node
}

func (h *history) next() {
	s := h.spare[len(h.spare)-1]
	h.spare = h.spare[:len(h.spare)-1]
	h.take(s)
}

func (h *history) take(s Step) {
	switch s.Kind {
	case Create, Revise:
		h.policies[s.Slug] = s.Policy
	case Delete:
		delete(h.policies, s.Slug)
	case Register:
		h.nodes[s.Node.ID] = s.Node
	case Remove:
		delete(h.nodes, s.Node.ID)
	}
	h.steps = append(h.steps, s)
}

// change takes one or a few steps that belong together.
func (h *history) change() {
	if len(h.spare) > 0 && h.r.IntN(6) == 0 {
		h.next()
		return
	}
	if len(h.policies) > 0 && h.r.IntN(2) == 0 {
		h.changePolicy()
	} else if len(h.nodes) > 0 {
		h.changeNode()
	} else {
		h.take(Step{Kind: Register, Why: "the world was empty", Node: h.Node("node-late")})
	}
}

func (h *history) changePolicy() {
	slug := pick(h.Gen, slices.Sorted(maps.Keys(h.policies)))
	p := h.policies[slug]
	revise := func(why string) { h.take(Step{Kind: Revise, Why: why, Slug: slug, Policy: p}) }
	switch h.r.IntN(8) {
	case 0:
		p.Selector = Selector{narrow(p.Selector.Source, h.Gen), narrow(p.Selector.Destination, h.Gen)}
		revise("narrow")
	case 1:
		p.Selector = h.Selector()
		revise("select others")
	case 2:
		p.Rules = h.rulesOf(p, h.ruleCount())
		revise("other rules")
	case 3:
		p.Rules = slices.Clone(p.Rules)
		slices.Reverse(p.Rules)
		revise("same rules, another order")
	case 4:
		before := p.Selector
		p.Selector = Selector{"role=nobody", "role=nobody"}
		revise("select nobody")
		p.Selector = before
		revise("and back")
	case 5:
		p.DisplayName += "!"
		revise("rename")
	case 6:
		p.Order = Order{}
		if h.r.IntN(3) > 0 {
			p.Order = h.Order()
		}
		revise("elsewhere in the order")
	case 7:
		h.take(Step{Kind: Delete, Why: "delete", Slug: slug})
		if h.r.IntN(2) == 0 {
			h.take(Step{Kind: Create, Why: "slug used again", Slug: slug, Policy: h.Policy(slug)})
		}
	}
}

// narrow adds a clause, so that the side matches no node it did not match.
func narrow(side string, g *Gen) string { return side + "," + g.Clause() }

func (h *history) changeNode() {
	id := pick(h.Gen, slices.Sorted(maps.Keys(h.nodes)))
	x := h.nodes[id]
	register := func(why string, labels map[string]string, addresses []string) {
		h.take(Step{Kind: Register, Why: why, Node: Node{id, labels, addresses}})
	}
	switch h.r.IntN(5) {
	case 0:
		register("relabel", h.Labels(), x.Addresses)
	case 1:
		register("there", h.Labels(), x.Addresses)
		register("and back", x.Labels, x.Addresses)
	case 2:
		register("move", x.Labels, h.addresses())
	case 3:
		register("lose labels", map[string]string{}, x.Addresses)
	case 4:
		h.take(Step{Kind: Remove, Why: "remove", Node: Node{ID: id}})
		if h.r.IntN(2) == 0 {
			register("back again", h.Labels(), x.Addresses)
		}
	}
}
