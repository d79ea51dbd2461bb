package rete

import (
	"net/netip"
	"slices"
	"strings"
)

// vertexName is the name of the i-th vertex of a node: what it is given, or its
// type when no other vertex has that.
func (n Node) vertexName(i int) string {
	v := n.Vertices[i]
	if v.Name != "" {
		return v.Name
	}
	for j, other := range n.Vertices {
		if j != i && other.Type == v.Type {
			return ""
		}
	}
	return string(v.Type)
}

// vertexNames are the names of a node's vertices, in their order.
func (n Node) vertexNames() []string {
	names := make([]string, len(n.Vertices))
	for i := range n.Vertices {
		names[i] = n.vertexName(i)
	}
	return names
}

// bind finds the vertex that via means, -1 when it means none or that is
// unknown.
func (n Node) bind(via string) int {
	switch {
	case via != "":
		return slices.Index(n.vertexNames(), via)
	case len(n.Vertices) == 1:
		return 0
	}
	return -1
}

// ruleVertices is rule 9.
func (c *checker) ruleVertices() {
	hosts := map[string]*Entry[Service]{}
	for _, s := range c.view.Services.All {
		if !slices.Contains(s.Value.Groups, GroupRead) && hosts[s.Value.At] == nil {
			hosts[s.Value.At] = s
		}
	}
	dialled := map[netip.AddrPort]string{}
	for _, n := range c.view.Nodes.All {
		c.vertexNames(n)
		c.graph(n, hosts[n.Name])
		c.addresses(n, dialled)
	}
}

// addresses checks that others can dial the vertices of a node; dialled are the
// addresses met so far, and whose they are.
func (c *checker) addresses(n *Entry[Node], dialled map[netip.AddrPort]string) {
	for i, v := range n.Value.Vertices {
		if !v.Address.IsValid() {
			continue
		}
		at := n.at("vertices", i, "address")
		if why := undiallable(v.Address.Addr()); why != "" {
			c.add("9", at, n.title(), "%s has the address %s, which %s, so no other node can dial it; give the address that others reach it by, or leave it out on a node that only initiates",
				n.title(), v.Address, why)
		}
		if other, taken := dialled[v.Address.AddrPort]; taken {
			c.add("9", at, n.title(), "%s has the address %s, and so has %s; whoever dials it reaches one of them only", n.title(), v.Address, other)
			continue
		}
		dialled[v.Address.AddrPort] = n.title()
	}
}

// undiallable says why no other machine can dial an address; empty: one may.
func undiallable(ip netip.Addr) string {
	switch {
	case ip.IsLoopback():
		return "is the machine itself"
	case ip.IsUnspecified():
		return "is any address"
	case ip.IsMulticast(), ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "is that of a group of machines"
	case ip.IsLinkLocalUnicast():
		return "counts on one link only"
	}
	return ""
}

func (c *checker) vertexNames(n *Entry[Node]) {
	names, before := n.Value.vertexNames(), seen[string]{}
	for i, v := range n.Value.Vertices {
		at, again := n.where("vertices", i, "name"), before.again(names[i])
		switch bad := BadName(names[i]); {
		case names[i] == "":
			c.add("9", at(), n.title(), "%s has several vertices of type %s; give each a name", n.title(), v.Type)
		case v.Name != "" && bad != "":
			c.add("3", at(), n.title(), "the name of vertex %q of %s %s", v.Name, n.title(), bad)
		case again:
			c.add("9", at(), n.title(), "%s has two vertices called %q; rename one", n.title(), names[i])
		}
	}
}

// graph checks the vertices of a node; hosted is a service that makes an
// address necessary, or nil.
func (c *checker) graph(n *Entry[Node], hosted *Entry[Service]) {
	links, quic, addressed := 0, 0, false
	for i, v := range n.Value.Vertices {
		if v.Kind == KindMesh {
			c.add("9", n.at("vertices", i, "kind"), n.title(), "%s has a vertex of kind mesh; only links are compiled yet, remove it", n.title())
			continue
		}
		if len(v.Uses) > 0 {
			c.add("9", n.at("vertices", i, "uses"), n.title(), "%s has a link with uses, which belongs to vertices of kind mesh; remove it", n.title())
		}
		links++
		if v.Type == TypeQUIC {
			quic++
			addressed = addressed || v.Address.IsValid()
		}
	}
	at := n.at("vertices")
	switch {
	case links == 0:
		c.add("9", at, n.title(), "%s has no vertex of kind link; add one of type quic", n.title())
		return
	case quic == 0:
		c.add("9", at, n.title(), "%s has no link of type quic; it needs exactly one", n.title())
		return
	case quic > 1:
		c.add("9", at, n.title(), "%s has %d links of type quic; it needs exactly one", n.title(), quic)
	}
	if hosted != nil && !addressed {
		c.add("9", at, n.title(), "%s hosts %s but its link has no address, so nobody can dial it; give the vertex an address, or place the service on another node",
			n.title(), hosted.title())
	}
}

// ruleBinding is rule 10. A node that is not defined is rule 2's or 5's.
func (c *checker) ruleBinding() {
	for _, n := range c.view.Nodes.All {
		c.binding(n, n.Value.AgentVia, "agent_via", "the agent of "+n.title(), n.title(), n.where("agent_via"))
	}
	for _, s := range c.view.Services.All {
		if n := c.view.Nodes.Get(s.Value.At); n != nil {
			c.binding(n, s.Value.Via, "via", s.title(), s.title(), s.where("via"))
		}
	}
	for _, u := range c.view.Users.All {
		for i, d := range u.Value.Nodes {
			if n := c.view.Nodes.Get(d.At); n != nil {
				c.binding(n, d.Via, "via", u.title(), u.title(), u.where("nodes", i, "via"))
			}
		}
	}
}

func (c *checker) binding(n *Entry[Node], via, field, subject, title string, at where) {
	if len(n.Value.Vertices) == 0 || n.Value.bind(via) >= 0 {
		return // no vertices at all is rule 9's
	}
	names := strings.Join(n.Value.vertexNames(), ", ")
	if via == "" {
		c.add("10", at(), title, "%s is on node %q, which has several vertices; specify `%s:` to disambiguate among %s", subject, n.Name, field, names)
		return
	}
	c.add("10", at(), title, "%s has %s: %s, but node %q has no such vertex; it has %s", subject, field, via, n.Name, names)
}
