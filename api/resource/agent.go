package resource

import (
	"encoding/json"
	"time"
)

// RegisterRequest is how an agent asks to be a node. Agents come in two
// dialects, which BootstrapToken and Token tell apart; whatever else they send
// is not read.
type RegisterRequest struct {
	ProjectID           string `json:"project_id,omitempty" doc:"The id of the node's project."`
	BootstrapToken      string `json:"bootstrap_token,omitempty" doc:"The one-time token, of current agents."`
	Nonce               string `json:"nonce,omitempty" doc:"A text that no other registration has, of current agents."`
	ResourceHandle      string `json:"resource_handle,omitempty" doc:"What the agent calls itself; it must be what the token is bound to, if it is."`
	ResourceID          string `json:"resource_id,omitempty" doc:"Another name of resource_handle."` // the other name of ResourceHandle
	RequestedResourceID string `json:"requested_resource_id,omitempty" doc:"The node's id, if the agent knows it."`

	Token    string `json:"token,omitempty" doc:"The one-time token, of older agents."`
	Hostname string `json:"hostname,omitempty" doc:"The machine's name, which is not kept."`

	PublicKey string `json:"public_key" doc:"The agent's X25519 public key, base64."`
}

// Registered answers both dialects at once.
type Registered struct {
	NodeID           string            `json:"node_id" doc:"The id of the node."`
	MeshIP           string            `json:"mesh_ip" doc:"An address that stands for none: there is no mesh."`
	SigningPublicKey string            `json:"signing_public_key" doc:"The plane's public key, which signs events: base64 of its 32 bytes."`
	SigningKeyID     string            `json:"signing_key_id" doc:"The id of that key."`
	NSK              string            `json:"nsk" doc:"The node's secret, base64. By itself it proves nothing: the bearer token has the node's id before it."`
	PeerSnapshot     []json.RawMessage `json:"peer_snapshot" doc:"Empty: there is no mesh."`
	DomainMeshCIDR   string            `json:"domain_mesh_cidr" doc:"A prefix of that one address."`
	NodeSecretKey    string            `json:"node_secret_key" doc:"The node's bearer token, whole."`
	Peers            []json.RawMessage `json:"peers" doc:"Empty: there is no mesh."`
}

// Heartbeat is what a node's agent says of itself. Only its clock is read.
type Heartbeat struct {
	ClientNow      *time.Time `json:"client_now,omitempty" doc:"The agent's clock. It must be within 60 s of the plane's; absent or zero it is not looked at."`
	BinaryChecksum string     `json:"binary_checksum,omitempty" doc:"Of the agent's program, which is not kept."`
	BinaryVersion  string     `json:"binary_version,omitempty" doc:"Of the agent, which is not kept."`
}

// HeartbeatAccepted says what the agent must do.
type HeartbeatAccepted struct {
	AcceptedAt time.Time `json:"accepted_at" doc:"When the plane took it, by the clock of the worker that answered."`
	Reconcile  bool      `json:"reconcile" doc:"Pull the state now: this worker cannot be relied on to push, or the node pulled another state from it last."`
	RotateKeys bool      `json:"rotate_keys" doc:"Always false: there is no mesh whose keys could be rotated."`
}

// Accepted says that the plane took what an agent sent.
type Accepted struct {
	AcceptedAt time.Time `json:"accepted_at" doc:"When the plane took it, by the clock of the worker that answered."`
}

// Drift is what a node found other than it should be, and put right.
type Drift struct {
	Timestamp   *time.Time   `json:"timestamp,omitempty" doc:"When, by the agent's clock."`
	Corrections []Correction `json:"corrections,omitempty" doc:"What it put right."`
}

// Correction is one thing that a node put right.
type Correction struct {
	Type   string `json:"type" doc:"What was done."`
	Detail string `json:"detail,omitempty" doc:"About what."`
}

// StateReport is one value that a node reports.
type StateReport struct {
	Value       string `json:"value" doc:"The value, which is not kept."`
	WorkloadTag string `json:"workload_tag,omitempty" doc:"Whose value it is, which is not kept."`
}

// StateReported says that the plane took it.
type StateReported struct {
	AcceptedAt time.Time `json:"accepted_at" doc:"When the plane took it, by the clock of the worker that answered."`
	Key        string    `json:"key" doc:"The key, as the path has it."`
}
