package rete

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"
)

// The kinds of a repository. A field's tag says its name in YAML and whether it
// is required; doc is its description in the published schema. All objects are
// closed.

// Source says which files a repository is made of.
type Source struct {
	Include []Glob `rete:"include" doc:"Files to read instead of every *.yaml and *.yml: globs from the root of the repository."`
	Exclude []Glob `rete:"exclude" doc:"Files not to read: globs from the root of the repository."`
}

// Rete is the singleton that names a rete and who signs for it.
type Rete struct {
	Name          ReteName     `rete:"name,required" doc:"Name of the rete, which is its SPIFFE trust domain."`
	CA            CA           `rete:"ca,required" doc:"The certificate authority of the rete."`
	Signers       Signers      `rete:"signers,required" doc:"Who signs what nodes trust."`
	TLSPrincipals LeafValidity `rete:"tls_principals" doc:"Policy for certificates of users, services and nodes."`
	Source        *Source      `rete:"source" doc:"Which files to read; may stand beside the rete block instead, but not in both places."`
}

// CA is the certificate authority of a rete.
type CA struct {
	Cert         Path `rete:"cert,required" doc:"Path of its certificate, from the root of the repository."`
	ValidityDays Days `rete:"validity_days" doc:"How long a new CA certificate is valid." default:"3650"`
}

// Signers are those who sign what nodes trust, by plane.
type Signers struct {
	Mgmt MgmtSigners `rete:"mgmt,required" doc:"Signers of compiled artifacts."`
}

// MgmtSigners sign compiled artifacts.
type MgmtSigners struct {
	Keys         []SignerKey `rete:"keys,required" doc:"The signers that nodes trust; the first signs unless another is named."`
	ValidityDays Days        `rete:"validity_days" doc:"How long a new signer certificate is valid." default:"365"`
}

// SignerKey is one signer and its certificate.
type SignerKey struct {
	Name string `rete:"name,required" doc:"Name of the signer, the last segment of its SPIFFE ID."`
	Cert Path   `rete:"cert,required" doc:"Path of its certificate below certs/management-planes/, from the root of the repository."`
}

// LeafValidity is a policy for certificates that are not in the repository.
type LeafValidity struct {
	ValidityDays Days `rete:"validity_days" doc:"How long a new certificate is valid." default:"90"`
}

// Node is a machine and its vertices.
type Node struct {
	Vertices []Vertex `rete:"vertices,required" doc:"The vertices of the node: exactly one link of type quic."`
	AgentVia string   `rete:"agent_via" doc:"The vertex of the node's agent. It may be left out when there is only one."`
}

// Vertex is one transport endpoint of a node.
type Vertex struct {
	Name    string     `rete:"name" doc:"Name of the vertex; its type when left out and it is the only one of that type."`
	Kind    VertexKind `rete:"kind,required" doc:"Which engine runs it."`
	Type    VertexType `rete:"type,required" doc:"Its transport."`
	Address Address    `rete:"address" doc:"Where peers dial it. Left out on nodes that only initiate."`
	Uses    []string   `rete:"uses" doc:"Reserved for mesh vertices."`
}

// Service is a workload that others reach.
type Service struct {
	At     string   `rete:"at,required" doc:"The node that hosts it."`
	Via    string   `rete:"via" doc:"The vertex that holds its identity. It may be left out when the node has only one."`
	Addr   Address  `rete:"addr,required" doc:"Where the service listens on its node."`
	Socks5 Address  `rete:"socks5_proxy" doc:"A listener opened for the service's own outbound calls."`
	Groups []string `rete:"groups" doc:"The groups it is in: who is granted one of them may reach it."`
	Roles  []string `rete:"roles" doc:"What it may reach itself."`
	Scope  Scope    `rete:"scope" doc:"Whether its identity carries the node's name." default:"rete"`
}

// Group is a mark on services that roles grant.
type Group struct{}

// Role grants groups.
type Role struct {
	Allow []string `rete:"allow,required" doc:"The groups it grants."`
}

// User is a person and the devices that speak for them.
type User struct {
	Roles []string `rete:"roles" doc:"What the user may reach."`
	Nodes []Device `rete:"nodes" doc:"The nodes that hold the user's identity."`
}

// Device is a node that holds a user's identity.
type Device struct {
	At     string  `rete:"at,required" doc:"The node."`
	Via    string  `rete:"via" doc:"The vertex that holds the identity. It may be left out when the node has only one."`
	Socks5 Address `rete:"socks5_proxy" doc:"The listener of the user; one is chosen when left out."`
}

// Days is a number of days, at most maxDays; 0: not given.
type Days uint32

// maxDays is a hundred years. No duration in nanoseconds has three hundred.
const maxDays = 36500

// Address is a checked IP:port; the zero value: not given.
type Address struct{ netip.AddrPort }

// set reads a leaf.
func (a *Address) set(text string) error {
	p, err := netip.ParseAddrPort(text)
	switch {
	case err != nil:
		return fmt.Errorf("%q is not IP:port, such as 127.0.0.1:8000 or [::1]:8000; names of hosts are not resolved", text)
	case p.Port() == 0 || p.Addr().Zone() != "":
		return fmt.Errorf("%q: the port must be 1 to 65535 and the IP without zone", text)
	}
	a.AddrPort = netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
	return nil
}

// VertexKind selects the engine of a vertex.
type VertexKind string

// Kinds of vertices. KindMesh is reserved.
const (
	KindLink VertexKind = "link"
	KindMesh VertexKind = "mesh"
)

func (VertexKind) values() []string { return []string{string(KindLink), string(KindMesh)} }

// VertexType is the transport of a vertex.
type VertexType string

// Types of vertices.
const (
	TypeQUIC VertexType = "quic"
	TypeUDP  VertexType = "udp"
)

func (VertexType) values() []string { return []string{string(TypeQUIC), string(TypeUDP)} }

// Scope says how far a service's name reaches; empty: ScopeRete.
type Scope string

// Scopes of services.
const (
	ScopeRete Scope = "rete" // spiffe://<rete>/service/<service>
	ScopeNode Scope = "node" // spiffe://<rete>/service/<node>/<service>
)

func (Scope) values() []string { return []string{string(ScopeRete), string(ScopeNode)} }

// Path is a file of the repository, from its root.
type Path string

func (p *Path) set(text string) error {
	if !fs.ValidPath(text) || text == "." || strings.Contains(text, `\`) {
		return fmt.Errorf("%q is not a path from the root of the repository, such as certs/ca.crt", text)
	}
	*p = Path(text)
	return nil
}

// Glob is a pattern of files from the root of the repository, with ** for any
// number of directories.
type Glob string

// maxCommas bounds the alternatives of a pattern, since all combinations of them may be
// tried with every file.
const maxCommas = 12

func (g *Glob) set(text string) error {
	if !validGlob(text) {
		return fmt.Errorf("%q is not a pattern from the root of the repository, such as teams/**/*.yaml", text)
	}
	if strings.Count(text, ",") > maxCommas {
		return fmt.Errorf("%.80q has more than %d commas; divide it into several patterns", text, maxCommas)
	}
	*g = Glob(text)
	return nil
}

// ReteName is a SPIFFE trust domain made of DNS labels.
type ReteName string

// ParseReteName reads the name of a rete, or says what one is.
func ParseReteName(text string) (ReteName, error) {
	var n ReteName
	err := n.set(text)
	return n, err
}

func (n *ReteName) set(text string) error {
	const most = 255
	if len(text) > most {
		return errors.New("the name of a rete has at most 255 characters")
	}
	for label := range strings.SplitSeq(text, ".") {
		if !isLabel(label) {
			return fmt.Errorf("%q is not a name of lower case letters, digits, hyphens and dots, such as demo.example", text)
		}
	}
	*n = ReteName(text)
	return nil
}
