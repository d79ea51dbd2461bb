package rete

import (
	"net/netip"
	"slices"

	"github.com/go-json-experiment/json"
)

// Listener is where a principal of a node was given a listener by an earlier
// compilation.
type Listener struct {
	Vertex, SPIFFE string
	At             netip.AddrPort
}

// Listeners are those of an earlier compilation, by node.
type Listeners map[string][]Listener

// ListenersOf are the listeners that the payload of a vertex gives to users and to
// the node; none, if it is no such payload. What else the payload has is not judged.
func ListenersOf(vertex string, payload []byte) (all []Listener) {
	var p struct {
		Workloads []struct {
			SPIFFE string `json:"spiffe_id"`
			IO     []IO   `json:"io"`
		} `json:"workloads"`
	}
	if err := json.Unmarshal(payload, &p); err != nil {
		return nil
	}
	for _, w := range p.Workloads {
		if len(w.IO) != 1 || w.IO[0].Kind != ioSocks5 {
			continue // a service declares its own
		}
		if at, err := netip.ParseAddrPort(w.IO[0].Listen); err == nil {
			all = append(all, Listener{vertex, w.SPIFFE, at})
		}
	}
	return all
}

// of finds the listener that a principal had on a vertex; where the vertex is gone,
// its only one on the node, since a vertex may be renamed.
func (l Listeners) of(n *Entry[Node], id string, vertex int) (at netip.AddrPort) {
	names := n.Value.vertexNames()
	var mine []Listener
	for _, have := range l[n.Name] {
		if have.SPIFFE != id {
			continue
		}
		if have.Vertex == names[vertex] {
			return have.At
		}
		mine = append(mine, have)
	}
	if len(mine) == 1 && !slices.Contains(names, mine[0].Vertex) {
		return mine[0].At
	}
	return at
}

// firstPort is where listeners are looked for.
const firstPort = 1080

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// holding is a principal on a vertex of a node, which has one listener there.
type holding struct {
	id     string
	vertex int
}

// allocator hands out loopback ports of one node.
type allocator struct {
	node  *Entry[Node]
	taken map[uint16]bool
	next  int
	kept  map[holding]uint16         // ports of before, of those who still need one
	moved map[holding]netip.AddrPort // those that another one claims now
}

// ports are those of a node, without what its services and users declared. Who had
// a listener has it again, so that whoever comes or goes moves nobody else's.
func (c *compiler) ports(n *Entry[Node], services []int, attachments []attachment) *allocator {
	a := &allocator{n, map[uint16]bool{}, firstPort, map[holding]uint16{}, map[holding]netip.AddrPort{}}
	for _, i := range services {
		s := c.access.targets[i].Value
		a.take(s.Addr)
		a.take(s.Socks5)
	}
	for _, s := range attachments {
		a.take(s.device.Socks5)
	}
	for _, s := range attachments {
		if !s.device.Socks5.IsValid() {
			a.keep(c.kept, holding{c.model.userID(s.Name), n.Value.bind(s.device.Via)})
		}
	}
	a.keep(c.kept, holding{c.model.nodeID(n.Name), n.Value.bind(n.Value.AgentVia)})
	return a
}

// take notes a port that somebody declared.
func (a *allocator) take(address Address) {
	if ip := address.Addr(); address.IsValid() && (ip.IsUnspecified() || ip == loopback) {
		a.taken[address.Port()] = true
	}
}

// keep reserves the port that somebody had, unless it is taken.
func (a *allocator) keep(before Listeners, who holding) {
	at := before.of(a.node, who.id, who.vertex)
	_, again := a.kept[who]
	switch {
	case !at.IsValid() || at.Addr() != loopback || at.Port() == 0 || again:
	case a.taken[at.Port()]:
		a.moved[who] = at
	default:
		a.taken[at.Port()] = true
		a.kept[who] = at.Port()
	}
}

// listener is the one that a principal had, or the lowest free address for one.
func (c *compiler) listener(a *allocator, who holding, title string) string {
	if port, ok := a.kept[who]; ok {
		return netip.AddrPortFrom(loopback, port).String()
	}
	const lastPort = 65535
	for ; a.next <= lastPort; a.next++ {
		if a.taken[uint16(a.next)] {
			continue
		}
		at := netip.AddrPortFrom(loopback, uint16(a.next))
		a.next++
		if before, ok := a.moved[who]; ok {
			c.fault(a.node.here(), title, "%s listened at %s on node %q, which is another's now; it moves to %s, so tell whoever dials it", title, before, a.node.Name, at)
			c.faults[len(c.faults)-1].Warning = true
		}
		return at.String()
	}
	c.fault(a.node.here(), a.node.title(), "%s has no free port left for the listeners of its users", a.node.title())
	return ""
}
