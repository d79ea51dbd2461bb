package rete

// What a node's two kinds of artifacts say. Members stand in the order of the
// specification's examples; what is empty is left out, and readers take it for
// an empty list.

// Kinds of artifacts.
const (
	ArtifactAgent  = "agent"  // one for each node, named so too
	ArtifactVertex = "vertex" // one for each vertex, named after it
)

// caFile is where a node finds the CA's certificate in its install root.
const caFile = "ca.crt"

// wire is the name of the one adapter of a link vertex.
const (
	wireAdapter = "wire"
	adapterUDP  = "udp"
)

// AgentPayload is what a node's agent needs: whom to trust, which vertices to
// run, and where its state comes from.
type AgentPayload struct {
	Trust        Trust        `json:"trust"`
	Vertices     []VertexRef  `json:"vertices"`
	ControlPlane ControlPlane `json:"control_plane"`
}

// Trust is the CA and the signers that a node trusts from this artifact on.
type Trust struct {
	CACertPath string             `json:"ca_cert_path"` // a bare file name
	Signers    []AuthorizedSigner `json:"authorized_mgmt_signers"`
}

// AuthorizedSigner is a signer of plane "mgmt".
type AuthorizedSigner struct {
	SPIFFE string `json:"spiffe_id"`
	Key    []byte `json:"pubkey"` // 32 bytes, base64 std in JSON
}

// VertexRef names a vertex; its artifact is found by that name.
type VertexRef struct {
	Name string     `json:"name"`
	Kind VertexKind `json:"kind"`
}

// ControlPlane is how the agent reaches the config-server: as principal,
// through a listener on its own node.
type ControlPlane struct {
	Principal    string  `json:"principal"`
	ConfigServer string  `json:"config_server"`
	Via          Conduit `json:"via"`
}

// Conduit is a listener to dial.
type Conduit struct {
	Kind string `json:"kind"`
	Addr string `json:"addr"`
}

// VertexPayload is what a link vertex runs on.
type VertexPayload struct {
	Kind              VertexKind        `json:"kind"`
	CACertPath        string            `json:"ca_cert_path"`
	TransportEndpoint TransportEndpoint `json:"transport_endpoint"`
	ConnectionManager ConnectionManager `json:"connection_manager"`
	Workloads         []Workload        `json:"workloads"`
	Ingress           []Access          `json:"ingress,omitempty"` // who may reach a local target: authoritative
	Links             []LinkRule        `json:"links,omitempty"`   // how to dial each remote target
	Egress            []Access          `json:"egress,omitempty"`  // who may reach a remote target: advisory
}

// TransportEndpoint is the protocol of a vertex.
type TransportEndpoint struct {
	Type VertexType `json:"type"`
}

// ConnectionManager holds the adapters; a link has exactly one, of type udp.
type ConnectionManager struct {
	Adapters []Adapter `json:"adapters"`
}

// Adapter is a socket.
type Adapter struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Listen string `json:"listen,omitempty"` // absent on nodes that only initiate
}

// Workload is a local principal and how it is wired.
type Workload struct {
	SPIFFE   string   `json:"spiffe_id"`
	Identity Identity `json:"identity"`
	IO       []IO     `json:"io"`
}

// Identity names the files of a principal in the install root.
type Identity struct {
	CertPath string `json:"cert_path"`
	PrivPath string `json:"priv_path"`
}

// IO is a channel of a workload: an inbound one listens for it, an outbound one
// connects to it.
type IO struct {
	Kind     string `json:"kind"`
	Listen   string `json:"listen,omitempty"`   // of ioSocks5
	Upstream string `json:"upstream,omitempty"` // of ioTCP
}

// Kinds of channels.
const (
	ioSocks5 = "socks5"
	ioTCP    = "tcp"
)

// Access allows principals to reach a target.
type Access struct {
	Target string   `json:"target"`
	Allow  []string `json:"allow"` // SPIFFE IDs, ascending
}

// LinkRule is a table of targets; its type is "enum".
type LinkRule struct {
	Type    string `json:"type"`
	Members []Link `json:"members"`
}

const linkEnum = "enum"

// Link is where a target is dialled.
type Link struct {
	Name string  `json:"name"`
	Peer string  `json:"peer"`
	Via  LinkVia `json:"via"`
}

// LinkVia is an address behind an adapter.
type LinkVia struct {
	Type    string `json:"type"`
	Adapter string `json:"adapter"`
	Addr    string `json:"addr"`
}
