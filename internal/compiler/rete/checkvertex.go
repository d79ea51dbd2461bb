package rete

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
)

// CheckVertex says everything that is wrong with the payload of a vertex, before
// it is signed and before it is run (reference 5B): a malformed link must not
// reach a node. CheckAgent does so for an agent's.
func CheckVertex(payload []byte) []error {
	var p VertexPayload
	if err := json.Unmarshal(payload, &p, json.RejectUnknownMembers(true)); err != nil {
		return []error{fmt.Errorf("not a vertex payload: %w", err)}
	}
	return p.faults()
}

// faults is CheckVertex of what is not printed yet.
func (p *VertexPayload) faults() []error {
	c := vertexCheck{domains: map[string]bool{}, local: map[string]bool{}}
	c.shape(p)
	c.workloads(p)
	c.rows(p, c.links(p))
	if len(c.domains) > 1 {
		c.fault("its SPIFFE IDs are of more than one trust domain")
	}
	return c.faults
}

type vertexCheck struct {
	faults  []error
	domains map[string]bool
	local   map[string]bool // SPIFFE IDs of the vertex's workloads
}

func (c *vertexCheck) fault(format string, args ...any) {
	c.faults = append(c.faults, fmt.Errorf(format, args...))
}

// ids notes the trust domains of SPIFFE IDs.
func (c *vertexCheck) ids(all ...string) {
	for _, id := range all {
		rest, ok := strings.CutPrefix(id, principalTemplate)
		domain, path, cut := strings.Cut(rest, "/")
		if !ok || !cut || domain == "" || path == "" {
			c.fault("%.80q is not a SPIFFE ID", id)
			continue
		}
		c.domains[domain] = true
	}
}

func (c *vertexCheck) shape(p *VertexPayload) {
	if p.Kind != KindLink {
		c.fault("its kind is %.20q; want %s", p.Kind, KindLink)
	}
	if !bareFile(p.CACertPath) {
		c.fault("ca_cert_path %.80q is not a bare file name", p.CACertPath)
	}
	if t := p.TransportEndpoint.Type; t != TypeQUIC && t != TypeUDP {
		c.fault("its transport endpoint is of type %.20q; want %s or %s", t, TypeQUIC, TypeUDP)
	}
	adapters := p.ConnectionManager.Adapters
	if len(adapters) != 1 || adapters[0].Type != adapterUDP {
		c.fault("a link vertex must declare exactly one adapter, of type %s; it has %d", adapterUDP, len(adapters))
	}
	for _, a := range adapters {
		if a.Name == "" {
			c.fault("an adapter has no name, so no link can go by it")
		}
		if a.Listen != "" {
			c.address(a.Listen, "adapter %.40q listens at no address", a.Name)
		}
	}
}

// address notes a text that is no address.
func (c *vertexCheck) address(text, format string, args ...any) {
	var at Address
	if err := at.set(text); err != nil {
		c.fault("%s: %w", fmt.Sprintf(format, args...), err)
	}
}

// rows checks who may reach whom: what comes in is for a workload that is here, what
// goes out is from one, and goes where a link leads.
func (c *vertexCheck) rows(p *VertexPayload, linked map[string]bool) {
	for _, row := range p.Ingress {
		c.ids(append([]string{row.Target}, row.Allow...)...)
		if !c.local[row.Target] {
			c.fault("ingress target %s is no workload of this vertex", row.Target)
		}
	}
	for _, row := range p.Egress {
		c.ids(append([]string{row.Target}, row.Allow...)...)
		if !linked[row.Target] {
			c.fault("egress target %s has no link to dial it", row.Target)
		}
		for _, id := range row.Allow {
			if !c.local[id] {
				c.fault("egress to %s allows %s, which is no workload of this vertex", row.Target, id)
			}
		}
	}
}

func (c *vertexCheck) workloads(p *VertexPayload) {
	for _, w := range p.Workloads {
		c.ids(w.SPIFFE)
		c.local[w.SPIFFE] = true
		if !bareFile(w.Identity.CertPath) || !bareFile(w.Identity.PrivPath) {
			c.fault("the identity of %s is not two bare file names", w.SPIFFE)
		}
		if len(w.IO) == 0 {
			c.fault("workload %s has no io, so it is wired to nothing", w.SPIFFE)
		}
		for _, io := range w.IO {
			if io.Kind == ioSocks5 && (io.Listen == "" || io.Upstream != "") || io.Kind == ioTCP && (io.Upstream == "" || io.Listen != "") ||
				io.Kind != ioSocks5 && io.Kind != ioTCP {
				c.fault("workload %s has an io that is neither %s with listen nor %s with upstream", w.SPIFFE, ioSocks5, ioTCP)
				continue
			}
			c.address(io.Listen+io.Upstream, "the io of workload %s is at no address", w.SPIFFE)
		}
	}
}

// links checks the table of links, and returns whom it leads to.
func (c *vertexCheck) links(p *VertexPayload) map[string]bool {
	linked, adapters := map[string]bool{}, map[string]string{}
	for _, a := range p.ConnectionManager.Adapters {
		adapters[a.Name] = a.Type
	}
	for _, rule := range p.Links {
		if rule.Type != linkEnum {
			c.fault("a rule of links has type %.20q; want %s", rule.Type, linkEnum)
		}
		for _, l := range rule.Members {
			c.ids(l.Peer)
			linked[l.Peer] = true
			if of, ok := adapters[l.Via.Adapter]; !ok || of != l.Via.Type {
				c.fault("the link to %s goes by adapter %.40q of type %.20q, which is not declared", l.Peer, l.Via.Adapter, l.Via.Type)
			}
			if !dialable(l.Peer) {
				c.fault("the link to %s leads to no service or vertex", l.Peer)
			}
			c.address(l.Via.Addr, "the link to %s", l.Peer)
		}
	}
	return linked
}

func dialable(id string) bool {
	_, path, _ := strings.Cut(strings.TrimPrefix(id, principalTemplate), "/")
	kind, _, _ := strings.Cut(path, "/")
	return kind == PrincipalService || kind == PrincipalVertex
}

func bareFile(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, `/\`)
}

// CheckAgent says everything that is wrong with the payload of an agent, and
// returns it.
func CheckAgent(payload []byte) (AgentPayload, []error) {
	var p AgentPayload
	if err := json.Unmarshal(payload, &p, json.RejectUnknownMembers(true)); err != nil {
		return p, []error{fmt.Errorf("not an agent payload: %w", err)}
	}
	var faults []error
	if !bareFile(p.Trust.CACertPath) {
		faults = append(faults, fmt.Errorf("ca_cert_path %.80q is not a bare file name", p.Trust.CACertPath))
	}
	if len(p.Trust.Signers) == 0 {
		faults = append(faults, errors.New("it authorizes no signer, so the node could never accept anything again"))
	}
	for _, s := range p.Trust.Signers {
		if len(s.Key) != 32 || !strings.HasPrefix(s.SPIFFE, principalTemplate) {
			faults = append(faults, fmt.Errorf("signer %.80q has no ed25519 key, or no SPIFFE ID", s.SPIFFE))
		}
	}
	seen := map[string]bool{}
	for _, v := range p.Vertices {
		if BadName(v.Name) != "" || seen[v.Name] {
			faults = append(faults, fmt.Errorf("vertex %.80q is no name, or is listed twice", v.Name))
		}
		seen[v.Name] = true
	}
	return p, faults
}
