package rete

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
)

// NodeSet is everything one node must hold.
type NodeSet struct {
	Node      string
	Artifacts []Artifact // the agent's, then the vertices' by name
}

// Artifact is one payload and what it is about.
type Artifact struct {
	Kind    string // ArtifactAgent or ArtifactVertex
	Name    string
	Payload []byte // compact JSON
}

// Path is where the artifact lies below the node's directory.
func (a Artifact) Path() string { return ArtifactPath(a.Kind, a.Name) }

// ArtifactPath is where an artifact lies below its node's directory.
func ArtifactPath(kind, name string) string {
	if kind == ArtifactAgent {
		return "mgmt/agent.json"
	}
	return "mgmt/vertices/" + name + ".json"
}

// Compile derives what each node must hold, nodes by name (reference 4.2). The
// model must be without violations. Faults are what a valid repository can still
// get wrong, and every vertex payload that CheckVertex refuses; with any, there
// is nothing to sign.
func Compile(m *Model) ([]NodeSet, []Fault) { return CompileAfter(m, nil) }

// CompileAfter is Compile of a repository that was compiled before: users and nodes
// keep the listeners that they had. A listener that must move, because somebody
// declares its port now, is a warning, which does not keep anything from being signed.
func CompileAfter(m *Model, before Listeners) ([]NodeSet, []Fault) {
	return compile(m, before, func(*VertexPayload) {})
}

// compile is CompileAfter with what befalls a vertex payload between derivation and check.
func compile(m *Model, before Listeners, meanwhile func(*VertexPayload)) ([]NodeSet, []Fault) {
	c := &compiler{model: m, access: newAccess(m.View), local: map[string]*residents{}, kept: before}
	c.settle()
	c.addressed()
	if len(Violations(c.faults)) > 0 {
		return nil, sortFaults(c.faults)
	}
	sets := make([]NodeSet, len(m.Nodes.All))
	refused := make([][]malformed, len(sets))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, n := range m.Nodes.All {
		d := c.derive(n) // what it remembers from node to node is not for many at once
		g.Go(func() error {
			for i := range d.vertices {
				meanwhile(&d.vertices[i])
			}
			sets[i], refused[i] = d.set(n)
			return nil
		})
	}
	_ = g.Wait() // none of them fails
	for i, n := range m.Nodes.All {
		for _, r := range refused[i] {
			c.fault(n.at("vertices", r.vertex), n.title(), "the artifact of vertex %s of node %q would be malformed: %v", n.Value.vertexNames()[r.vertex], n.Name, r.err)
		}
	}
	return sets, sortFaults(c.faults)
}

// payloads are what one node must hold, not yet printed.
type payloads struct {
	agent    AgentPayload
	vertices []VertexPayload // in the order of the node's
}

// malformed is what CheckVertex has against the payload of a vertex.
type malformed struct {
	vertex int
	err    error
}

type compiler struct {
	report
	model  *Model
	access *access
	local  map[string]*residents // by node
	kept   Listeners
}

// residents are the principals of one node, in the order of artifacts.
type residents struct {
	all      []resident
	services []int // of access.targets
	agent    string
}

// resident is a principal on a node.
type resident struct {
	id, leaf string
	vertex   int
	roles    []string
	io       []IO
}

// attachment is a user's device on one node.
type attachment struct {
	*Entry[User]
	device Device
}

func (c *compiler) fault(at place, name, format string, args ...any) {
	c.add("", at, name, format, args...)
	c.faults[len(c.faults)-1].Label = LabelCompile
}

// settle puts every principal on its nodes, and gives it its channels.
func (c *compiler) settle() {
	for _, n := range c.model.Nodes.All {
		c.local[n.Name] = &residents{}
	}
	for i, t := range c.access.targets {
		r := c.local[t.node]
		r.services = append(r.services, i)
	}
	attachments := map[string][]attachment{}
	for _, u := range c.model.Users.All {
		for _, d := range u.Value.Nodes {
			attachments[d.At] = append(attachments[d.At], attachment{u, d})
		}
	}
	for _, n := range c.model.Nodes.All {
		r := c.local[n.Name]
		ports := c.ports(n, r.services, attachments[n.Name])
		// Users choose a port before the node does, and stand behind it.
		users := c.users(n, attachments[n.Name], ports)
		r.agent = c.listener(ports, holding{c.model.nodeID(n.Name), n.Value.bind(n.Value.AgentVia)}, n.title())
		r.all = append(r.all, resident{
			id: c.model.nodeID(n.Name), leaf: n.Name, vertex: n.Value.bind(n.Value.AgentVia), roles: nodeRoles,
			io: []IO{{Kind: ioSocks5, Listen: r.agent}},
		})
		r.all = append(r.all, users...)
		for _, i := range r.services {
			r.all = append(r.all, c.service(&c.access.targets[i]))
		}
	}
}

func (c *compiler) users(n *Entry[Node], attachments []attachment, ports *allocator) []resident {
	var users []resident
	for _, s := range attachments {
		who := resident{id: c.model.userID(s.Name), leaf: s.Name, vertex: n.Value.bind(s.device.Via), roles: s.Value.Roles}
		if slices.ContainsFunc(users, func(u resident) bool { return u.id == who.id && u.vertex == who.vertex }) {
			continue // said twice
		}
		listen := s.device.Socks5.String()
		if !s.device.Socks5.IsValid() {
			listen = c.listener(ports, holding{who.id, who.vertex}, s.title())
		}
		who.io = []IO{{Kind: ioSocks5, Listen: listen}}
		users = append(users, who)
	}
	return users
}

func (c *compiler) service(t *target) resident {
	io := []IO{{Kind: ioTCP, Upstream: t.Value.Addr.String()}}
	if t.Value.Socks5.IsValid() {
		io = append(io, IO{Kind: ioSocks5, Listen: t.Value.Socks5.String()})
	}
	return resident{id: t.id, leaf: t.Name, vertex: t.vertex, roles: t.Value.Roles, io: io}
}

// addressed checks that every target somebody may reach can be dialled.
func (c *compiler) addressed() {
	for i := range c.access.targets {
		t := &c.access.targets[i]
		if t.addr == "" && len(c.access.callers(t)) > 0 {
			n := c.model.Nodes.Get(t.node)
			c.fault(n.at("vertices", t.vertex), t.title(), "%s may be reached by others, but the vertex of node %q that holds it has no address; give it one", t.title(), t.node)
		}
	}
}

func (c *compiler) derive(n *Entry[Node]) payloads {
	r := c.local[n.Name]
	d := payloads{agent: c.agent(n, r)}
	for i, v := range n.Value.Vertices {
		d.vertices = append(d.vertices, c.vertex(v, i, r))
	}
	return d
}

// set checks and prints what one node must hold.
func (d *payloads) set(n *Entry[Node]) (NodeSet, []malformed) {
	set := NodeSet{n.Name, []Artifact{{ArtifactAgent, ArtifactAgent, printed(d.agent)}}}
	var refused []malformed
	for i, name := range n.Value.vertexNames() {
		for _, err := range d.vertices[i].faults() {
			refused = append(refused, malformed{i, err})
		}
		set.Artifacts = append(set.Artifacts, Artifact{ArtifactVertex, name, printed(d.vertices[i])})
	}
	slices.SortFunc(set.Artifacts, func(a, b Artifact) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
	return set, refused
}

func (c *compiler) agent(n *Entry[Node], r *residents) AgentPayload {
	p := AgentPayload{
		Trust: Trust{CACertPath: caFile},
		ControlPlane: ControlPlane{
			Principal:    c.model.nodeID(n.Name),
			ConfigServer: c.access.targets[0].id, // rule 6: it is there, and sorts first
			Via:          Conduit{ioSocks5, r.agent},
		},
	}
	for _, s := range c.model.Signers {
		p.Trust.Signers = append(p.Trust.Signers, AuthorizedSigner{s.SPIFFE, s.Key})
	}
	names := n.Value.vertexNames()
	for i, v := range n.Value.Vertices {
		p.Vertices = append(p.Vertices, VertexRef{names[i], v.Kind})
	}
	return p
}

func (c *compiler) vertex(v Vertex, index int, r *residents) VertexPayload {
	p := VertexPayload{
		Kind: v.Kind, CACertPath: caFile, TransportEndpoint: TransportEndpoint{v.Type},
		ConnectionManager: ConnectionManager{[]Adapter{{Name: wireAdapter, Type: adapterUDP, Listen: listenAt(v.Address)}}},
		Workloads:         []Workload{},
	}
	reach := map[int][]string{} // target → who of this vertex may reach it
	for _, who := range r.all {
		if who.vertex != index {
			continue
		}
		p.Workloads = append(p.Workloads, Workload{who.id, Identity{who.leaf + ".crt", who.leaf + ".key"}, who.io})
		for _, t := range c.access.reachable(who.roles) {
			if c.access.targets[t].id != who.id {
				reach[t] = append(reach[t], who.id)
			}
		}
	}
	for _, i := range r.services {
		t := &c.access.targets[i]
		if allow := c.access.callers(t); t.vertex == index && len(allow) > 0 {
			p.Ingress = append(p.Ingress, Access{t.id, allow})
		}
	}
	c.outwards(&p, reach)
	return p
}

// outwards fills links and egress, which speak of the same targets.
func (c *compiler) outwards(p *VertexPayload, reach map[int][]string) {
	order := make([]int, 0, len(reach))
	for t := range reach {
		order = append(order, t)
	}
	slices.Sort(order)
	var members []Link
	for _, i := range order {
		t := &c.access.targets[i]
		members = append(members, Link{t.Name, t.id, LinkVia{adapterUDP, wireAdapter, t.addr}})
		p.Egress = append(p.Egress, Access{t.id, sortedSet(reach[i])})
	}
	if len(members) > 0 {
		p.Links = []LinkRule{{linkEnum, members}}
	}
}

// listenAt is where a vertex with an address listens: at its port, on every
// interface of its family, because the address may be one that a router
// translates.
func listenAt(a Address) string {
	switch {
	case !a.IsValid():
		return ""
	case a.Addr().Is4():
		return "0.0.0.0:" + strconv.Itoa(int(a.Port()))
	}
	return "[::]:" + strconv.Itoa(int(a.Port()))
}

// printed is a payload as compact JSON.
func printed(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(fmt.Sprintf("rete: a payload cannot be printed: %v", err)) // strings and lists always can
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
