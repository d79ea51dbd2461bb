package wire

import "github.com/edictdev/edict/policy"

// Types of events for nodes, over SSE and NATS. A rotation of the plane's key is
// policy.TypeKeyRotated.
const (
	TypePolicyUpdated   = "policy_updated"
	TypeArtifactUpdated = "artifact_updated"
	TypeStateUpdated    = "node_state_updated" // pull
)

// Names on a node's subjects: the last parts of edict.node.<node>.<name>. That of
// a policy is its id.
const (
	NameState      = "state"     // of a node_state_updated
	PrefixArtifact = "artifact." // <kind>.<name> follows, and of a further rete of the node .<rete>
)

// CommentTrace begins the comment before an event over SSE that names its trace; a
// traceparent follows.
const CommentTrace = ": traceparent "

// SourcePlane is HeaderCESource of what the plane sends to nodes.
const SourcePlane = "edict"

// ArtifactUpdated is the payload of a message about one artifact of a node, over SSE
// and on NATS. Of a withdrawn artifact version is 0, and fingerprint and document are
// empty.
type ArtifactUpdated struct {
	NodeID      policy.NodeID `json:"node_id"`
	Kind        string        `json:"kind"`
	Name        string        `json:"name"`
	Rete        string        `json:"rete,omitempty" doc:"The rete that it is of; absent when it is the node's first, or only one."`
	Version     uint64        `json:"version" doc:"Its version; 0 when it was withdrawn."`
	Fingerprint string        `json:"fingerprint" doc:"SHA-256 of the document, in base64; empty when it was withdrawn."`
	Document    *string       `json:"document,omitempty" doc:"The file as it was signed, byte for byte; empty when it was withdrawn, absent when it is too large for a message: pull the set."`
}
