package resource

import (
	"encoding/json"
	"time"
)

// RegisterRequest is how an agent asks to be a node. Agents come in two
// dialects, which BootstrapToken and Token tell apart; whatever else they send
// is not read.
type RegisterRequest struct {
	ProjectID           string `json:"project_id,omitempty"`
	BootstrapToken      string `json:"bootstrap_token,omitempty"`
	Nonce               string `json:"nonce,omitempty"`
	ResourceHandle      string `json:"resource_handle,omitempty"`
	ResourceID          string `json:"resource_id,omitempty"` // the other name of ResourceHandle
	RequestedResourceID string `json:"requested_resource_id,omitempty"`

	Token    string `json:"token,omitempty"`
	Hostname string `json:"hostname,omitempty"`

	PublicKey string `json:"public_key"`
}

// Registered answers both dialects at once.
type Registered struct {
	NodeID           string            `json:"node_id"`
	MeshIP           string            `json:"mesh_ip"`
	SigningPublicKey string            `json:"signing_public_key"`
	SigningKeyID     string            `json:"signing_key_id"`
	NSK              string            `json:"nsk"`
	PeerSnapshot     []json.RawMessage `json:"peer_snapshot"`
	DomainMeshCIDR   string            `json:"domain_mesh_cidr"`
	NodeSecretKey    string            `json:"node_secret_key"`
	Peers            []json.RawMessage `json:"peers"`
}

// Heartbeat is what a node's agent says of itself. Only its clock is read.
type Heartbeat struct {
	ClientNow      *time.Time `json:"client_now,omitempty"`
	BinaryChecksum string     `json:"binary_checksum,omitempty"`
	BinaryVersion  string     `json:"binary_version,omitempty"`
}

// HeartbeatAccepted tells the agent what to do.
type HeartbeatAccepted struct {
	AcceptedAt time.Time `json:"accepted_at"`
	Reconcile  bool      `json:"reconcile"`
	RotateKeys bool      `json:"rotate_keys"`
}

// Accepted says that the plane took what an agent sent.
type Accepted struct {
	AcceptedAt time.Time `json:"accepted_at"`
}

// Drift is what a node found other than it should be, and put right.
type Drift struct {
	Timestamp   *time.Time   `json:"timestamp,omitempty"`
	Corrections []Correction `json:"corrections,omitempty"`
}

// Correction is one thing that a node put right.
type Correction struct {
	Type   string `json:"type"`
	Detail string `json:"detail,omitempty"`
}

// StateReport is one value that a node reports.
type StateReport struct {
	Value       string `json:"value"`
	WorkloadTag string `json:"workload_tag,omitempty"`
}

// StateReported says that the plane took it.
type StateReported struct {
	AcceptedAt time.Time `json:"accepted_at"`
	Key        string    `json:"key"`
}
