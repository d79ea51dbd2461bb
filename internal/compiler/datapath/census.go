package datapath

import (
	"slices"
	"strings"

	"github.com/edictdev/edict/policy"
)

// Census sorts nodes by kind while they come and go. What it holds and the steps
// that it counts follow from the nodes that are there, in whatever order they
// came. It is one goroutine's.
type Census struct {
	*Kinds
	sets  map[string]*labelSet // by their keys
	near  map[*policy.Label]*labelSet
	kinds map[string]*Kind
	steps int
	key   []byte
}

// Kind is an identity and how many nodes are of it.
type Kind struct {
	Identity
	Nodes int
}

// labelSet is one that nodes have.
type labelSet struct {
	key      string
	nodes    int
	selected bool   // a peer by selector holds it
	name     string // of the identity without CIDRs; empty: not yet asked for
	anywhere int    // how many of the nodes have no address
	kind     string // their name, long where there are many CIDRs
}

// Census is one without nodes.
func (k *Kinds) Census() *Census {
	return &Census{Kinds: k, sets: map[string]*labelSet{}, near: map[*policy.Label]*labelSet{}, kinds: map[string]*Kind{}}
}

// Steps are those that sorting the nodes takes that are there.
func (c *Census) Steps() int { return c.steps }

// Kind is the one of a name, nil where no node is of it.
func (c *Census) Kind(name string) *Kind { return c.kinds[name] }

// Come takes up a node and is its kind, nil where no rule's peer holds it. The
// kind is shared: do not modify. The error is that of the work; after one, the
// census is of no use.
func (c *Census) Come(n policy.Node, w *Work) (*Kind, error) {
	s, err := c.set(n.Labels, w)
	if err != nil {
		return nil, err
	}
	s.nodes++
	if err := c.spend(c.ofAddresses(n), w); err != nil {
		return nil, err
	}
	id, ok := c.of(n, s.selected)
	if !ok {
		return nil, nil
	}
	if len(n.Addresses) > 0 || s.anywhere == 0 {
		if err := c.spend(stepsPerBlock*len(id.CIDRs), w); err != nil {
			return nil, err
		}
	}
	id.Name = s.nameOf(&id, len(n.Addresses) == 0)
	kind := c.kinds[id.Name]
	if kind == nil {
		kind = &Kind{Identity: id}
		c.kinds[id.Name] = kind
	}
	kind.Nodes++
	return kind, nil
}

// Go lets go of a node of a kind, nil where no peer held it.
func (c *Census) Go(n policy.Node, kind *Kind) {
	c.near = nil // it may hold sets that nobody has any more
	c.key = n.Labels.AppendKey(c.key[:0])
	s := c.sets[string(c.key)]
	c.steps -= c.ofAddresses(n)
	if kind != nil {
		if len(n.Addresses) == 0 {
			s.anywhere--
		}
		if len(n.Addresses) > 0 || s.anywhere == 0 {
			c.steps -= stepsPerBlock * len(kind.CIDRs)
		}
		there := c.kinds[kind.Name]
		if there.Nodes--; there.Nodes == 0 {
			delete(c.kinds, kind.Name)
		}
	}
	if s.nodes--; s.nodes == 0 {
		c.steps -= stepsPerSelector * len(c.named)
		delete(c.sets, s.key)
	}
}

// Settled says that no crowd comes any more: what helps with nodes that share
// label sets in memory is let go.
func (c *Census) Settled() { c.near = nil }

func (c *Census) ofAddresses(n policy.Node) int {
	return stepsPerBlock * (len(c.bits4) + len(c.bits6)) * len(n.Addresses)
}

func (c *Census) spend(steps int, w *Work) error {
	c.steps += steps
	return w.spend(steps)
}

// set is a label set among those that are there.
func (c *Census) set(labels policy.Labels, w *Work) (*labelSet, error) {
	var at *policy.Label
	if len(labels) > 0 {
		at = &labels[0]
	}
	if s := c.near[at]; s != nil {
		return s, nil
	}
	c.key = labels.AppendKey(c.key[:0])
	s := c.sets[string(c.key)]
	if s == nil {
		if err := c.spend(stepsPerSelector*len(c.named), w); err != nil {
			return nil, err
		}
		s = &labelSet{key: string(c.key), selected: c.selects(labels)}
		c.sets[s.key] = s
	}
	if c.near != nil {
		c.near[at] = s
	}
	return s, nil
}

// nameOf is the name of an identity of the set. anywhere: of a node without
// addresses, which counts as one.
func (s *labelSet) nameOf(id *Identity, anywhere bool) string {
	switch {
	case anywhere:
		if s.anywhere++; s.kind == "" {
			s.kind = identityName(id.Labels, id.CIDRs)
		}
		return s.kind
	case len(id.CIDRs) > 0:
		return identityName(id.Labels, id.CIDRs)
	case s.name == "":
		s.name = identityName(id.Labels, nil)
	}
	return s.name
}

// Population is nodes sorted by kind.
type Population struct {
	Identities []Identity // by name
	Members    map[string][]policy.Node
}

// Sort sorts nodes, in the order in which they are given. What many nodes cost
// because there are many rules is work; the error is that of it.
func (k *Kinds) Sort(nodes []policy.Node, w *Work) (Population, error) {
	c, p := k.Census(), Population{Members: map[string][]policy.Node{}}
	for _, n := range nodes {
		kind, err := c.Come(n, w)
		if err != nil {
			return Population{}, err
		}
		if kind != nil {
			p.Members[kind.Name] = append(p.Members[kind.Name], n)
		}
	}
	p.Identities = c.Identities()
	return p, nil
}

// Identities are those of the nodes that are there, by name.
func (c *Census) Identities() []Identity {
	ids := make([]Identity, 0, len(c.kinds))
	for _, k := range c.kinds {
		ids = append(ids, k.Identity)
	}
	slices.SortFunc(ids, func(a, b Identity) int { return strings.Compare(a.Name, b.Name) })
	return ids
}
