package snapshot

import (
	"bytes"
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
}

// enforcing is a node that is looked at.
type enforcing struct {
	list    listKey
	rows    []projector.HeadRef // by policy id
	sum     contents            // of the table; zero: there is none
	refused bool
	unseen  bool // its list and table were not looked at
	ordered bool // a policy of it has anything of ordered policy
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
	stands *standing      // nil: it is to be made
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
	if base := p.nodes[id]; base == nil || base.list != now.list {
		p.drop(id)
	}
	p.nodes[id] = now
	p.lists[now.list].nodes[id] = true
}

// drop looks at a node no more. Its list stays until the end of the look.
func (p *watched) drop(id policy.NodeID) {
	base := p.nodes[id]
	if base == nil {
		return
	}
	delete(p.nodes, id)
	if list := p.lists[base.list]; list != nil {
		delete(list.nodes, id)
	}
}

// sweep lets go the lists that no node has any more.
func (p *watched) sweep() {
	for key, list := range p.lists {
		if len(list.nodes) == 0 {
			delete(p.lists, key)
		}
	}
}

// pick names the nodes whose policies may be others now: who came, who changed,
// and whom a policy that changed matches or matched. all: nobody was looked at
// before.
func (p *watched) pick(m *projector.Muster, matches func(uuid.UUID, policy.NodeID) bool, all bool) (picked []policy.NodeID) {
	changed := map[policy.NodeID]bool{}
	count := map[uuid.UUID]int{}
	for _, t := range m.Touched {
		if t.Policy != uuid.Nil {
			count[t.Policy]++
		} else {
			changed[t.Node.ID] = true
		}
		all = all || t.Extended && !p.known
	}
	for id := range p.fresh {
		changed[id] = true
	}
	if !all && len(count) == 0 {
		for id := range changed {
			if _, here := p.here[id]; here {
				picked = append(picked, id)
			}
		}
		return picked
	}
	for id := range p.here {
		yes := all || changed[id]
		for policy, n := range count {
			yes = yes || n > 1 || p.nodes[id].has(policy) || matches(policy, id)
		}
		if yes {
			picked = append(picked, id)
		}
	}
	return picked
}

// has reports whether a node has a row of a policy.
func (e *enforcing) has(id uuid.UUID) bool {
	if e == nil {
		return false
	}
	_, found := slices.BinarySearchFunc(e.rows, id, func(h projector.HeadRef, id uuid.UUID) int { return bytes.Compare(h.Policy[:], id[:]) })
	return found
}
