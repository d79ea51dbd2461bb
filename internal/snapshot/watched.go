package snapshot

import (
	"bytes"
	"iter"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// watched is a project with nodes that are followed.
type watched struct {
	here  map[policy.NodeID]bool   // followed; true: somebody enforces its table
	asks  int                      // how many of them are true
	fresh map[policy.NodeID]uint64 // who came since the Look before, and what he knows

	// What follows is empty while nobody here is looked at.
	known  bool
	seq    uint64 // the moment of all below
	roster *roster
	nodes  map[policy.NodeID]*enforcing
	lists  map[listKey]*watchedList
	// combinations are the nodes by which policies match them.
	combinations map[string]*combination
}

// enforcing is a node that is looked at.
type enforcing struct {
	list      listKey
	rows      []projector.HeadRef // by policy id
	addresses policy.Addresses
	with      *combination
	sum       contents // of the table; zero: there is none
	refused   bool
	unseen    bool // its list and table were not looked at
	ordered   bool // a policy of it has anything of ordered policy
}

// watchedList is what nodes of equal lists have in common.
type watchedList struct {
	kinds *datapath.Kinds // nil: of nodes whose lists were not looked at
	// moves are the changes of nodes, since the Look before, that its table may
	// show.
	moves events
	own   map[policy.NodeID]int // how many, by node
	nodes map[policy.NodeID]bool

	listed int            // the most steps that the list takes, of its nodes
	place  *projectTables // where stands was asked for
	stands *listState     // nil: it is to be made
}

func newWatched() *watched {
	w := &watched{here: map[policy.NodeID]bool{}, fresh: map[policy.NodeID]uint64{}}
	w.forget()
	return w
}

// forget forgets what nodes enforce.
func (p *watched) forget() {
	if p.roster != nil && !p.known {
		return
	}
	p.known, p.seq = false, 0
	p.roster, p.nodes, p.lists = laid(nil, 0), map[policy.NodeID]*enforcing{}, map[listKey]*watchedList{}
	p.combinations = map[string]*combination{}
}

// follow notes that a node is followed, and whether somebody enforces its table.
func (p *watched) follow(id policy.NodeID, tables bool) {
	p.unfollow(id)
	if p.here[id] = tables; tables {
		p.asks++
	}
}

func (p *watched) unfollow(id policy.NodeID) {
	if p.here[id] {
		p.asks--
	}
	delete(p.here, id)
}

// idle reports whether there is nothing to look at, where no policy has anything
// of ordered policy.
func (p *watched) idle() bool { return len(p.nodes) == 0 && p.asks == 0 }

// put notes what a node enforces.
func (p *watched) put(id policy.NodeID, now *enforcing) {
	base := p.nodes[id]
	switch {
	case base == nil:
	case base.list != now.list:
		p.drop(id)
	case samePolicies(base.rows, now.rows):
		now.with = base.with
	default:
		p.part(id, base)
	}
	if now.with == nil {
		p.combine(id, now)
	}
	p.nodes[id] = now
	p.lists[now.list].nodes[id] = true
}

func samePolicies(a, b []projector.HeadRef) bool {
	return slices.EqualFunc(a, b, func(a, b projector.HeadRef) bool { return a.Policy == b.Policy })
}

// drop looks at a node no more. Its list stays until the end of the look.
func (p *watched) drop(id policy.NodeID) {
	base := p.nodes[id]
	if base == nil {
		return
	}
	delete(p.nodes, id)
	p.part(id, base)
	if list := p.lists[base.list]; list != nil {
		delete(list.nodes, id)
	}
}

// sweep lets go the lists that no node has any more.
func (p *watched) sweep() (gone []listKey) {
	for key, list := range p.lists {
		if len(list.nodes) == 0 {
			delete(p.lists, key)
			gone = append(gone, key)
		}
	}
	return gone
}

// pick names the nodes whose policies may be others now: who came, who changed,
// and whom a policy that changed matches or matched. all: nobody was looked at
// before.
func (p *watched) pick(m *projector.ProjectSnapshot, matching func(uuid.UUID) iter.Seq[policy.NodeID], all bool) (picked []policy.NodeID) {
	yes := map[policy.NodeID]bool{}
	count, extended := map[uuid.UUID]int{}, map[uuid.UUID]bool{}
	for _, t := range m.Changes {
		if t.Policy != uuid.Nil {
			count[t.Policy]++
			extended[t.Policy] = extended[t.Policy] || t.Extended
			all = all || t.Extended && !p.known
		} else {
			yes[t.Node.ID] = true
		}
	}
	for id := range p.fresh {
		yes[id] = true
	}
	for id, n := range count {
		p.met(yes, id, n, extended[id], matching)
	}
	if all {
		return slices.Collect(maps.Keys(p.here))
	}
	for id := range yes {
		if _, here := p.here[id]; here {
			picked = append(picked, id)
		}
	}
	return picked
}

// met adds the nodes that a policy may concern which changed so many times. One
// that has nothing of ordered policy concerns those alone that are looked at.
func (p *watched) met(yes map[policy.NodeID]bool, id uuid.UUID, times int, extended bool, matching func(uuid.UUID) iter.Seq[policy.NodeID]) {
	if times > 1 { // it may have matched others in between
		for node := range p.nodes {
			yes[node] = true
		}
		if extended {
			for node := range p.here {
				yes[node] = true
			}
		}
		return
	}
	for _, c := range p.combinations {
		if c.has(id) {
			for node := range c.nodes {
				yes[node] = true
			}
		}
	}
	for node := range matching(id) {
		if extended || p.nodes[node] != nil {
			yes[node] = true
		}
	}
}

// combination is policies that match the same nodes.
type combination struct {
	policies []uuid.UUID // ascending
	nodes    map[policy.NodeID]struct{}
}

func (c *combination) has(id uuid.UUID) bool {
	_, found := slices.BinarySearchFunc(c.policies, id, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	return found
}

// combine notes which policies match a node.
func (p *watched) combine(id policy.NodeID, now *enforcing) {
	key := make([]byte, 0, 256)
	for i := range now.rows {
		key = append(key, now.rows[i].Policy[:]...)
	}
	c := p.combinations[string(key)]
	if c == nil {
		c = &combination{nodes: map[policy.NodeID]struct{}{}}
		for i := range now.rows {
			c.policies = append(c.policies, now.rows[i].Policy)
		}
		p.combinations[string(key)] = c
	}
	now.with = c
	c.nodes[id] = struct{}{}
}

// part takes a node out of its combination.
func (p *watched) part(id policy.NodeID, base *enforcing) {
	c := base.with
	if delete(c.nodes, id); len(c.nodes) > 0 {
		return
	}
	var key []byte
	for _, id := range c.policies {
		key = append(key, id[:]...)
	}
	delete(p.combinations, string(key))
}

// has reports whether a node has a row of a policy.
func (e *enforcing) has(id uuid.UUID) bool {
	if e == nil {
		return false
	}
	_, found := slices.BinarySearchFunc(e.rows, id, func(h projector.HeadRef, id uuid.UUID) int { return bytes.Compare(h.Policy[:], id[:]) })
	return found
}
