package resource

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// Event is the data of one event of a node's stream: signed by the plane as it
// is delivered.
type Event struct {
	ID        string          `json:"id" doc:"Names the announcement: node, policy or artifact, and log sequence, joined by dots."`
	Type      string          `json:"type"`
	Scope     string          `json:"scope" doc:"node: and the node's id."`
	KeyID     string          `json:"key_id"`
	IssuedAt  time.Time       `json:"issued_at" doc:"When it was signed, which is when it was sent."`
	Payload   json.RawMessage `json:"payload"` // PolicyUpdated, ArtifactUpdated or NodeStateUpdated, by Type
	Signature string          `json:"signature" doc:"Base64 of the ed25519 signature over the compact JSON of the members before it, in their order."`
}

// BatchEvent is the data of an event for a reader that asked for dialect=batch.
type BatchEvent struct {
	ID        string          `json:"id" doc:"Names the announcement: node, policy or artifact, and log sequence, joined by dots."`
	Type      string          `json:"type"`
	Scope     string          `json:"scope" doc:"node: and the node's id."`
	KeyID     string          `json:"key_id"`
	IssuedAt  time.Time       `json:"issued_at" doc:"When it was signed, which is when it was sent."`
	Payload   json.RawMessage `json:"payload"` // as Event's
	Signature EventSignature  `json:"signature" doc:"Over the compact JSON of the members before it, in their order; or over a run of such texts."`
}

// EventSignature is over one event, or over a run of them with the proof that
// the event is in it.
type EventSignature struct {
	Alg   string  `json:"alg" doc:"ed25519: of this event alone; ed25519-merkle: of the root over a run, in which the event has its place."`
	KeyID string  `json:"key_id"`
	Leaf  *int    `json:"leaf,omitempty" doc:"The event's place in the run, from 0."`
	Path  *string `json:"path,omitempty" doc:"Base64 of the hashes from the leaf up, 32 bytes each."`
	Size  *int    `json:"size,omitempty" doc:"How many events are in the run."`
	Value string  `json:"value" doc:"Base64 of the ed25519 signature."`
}

// LegacyEvent is the data of an event for an agent that registered in the
// legacy form.
type LegacyEvent struct {
	Type      string          `json:"event_type"`
	ID        string          `json:"event_id" doc:"Names the announcement: node, policy or artifact, and log sequence, joined by dots."`
	IssuedAt  time.Time       `json:"issued_at" doc:"When it was signed, which is when it was sent."`
	Nonce     string          `json:"nonce" doc:"Another one for each delivery."`
	Payload   json.RawMessage `json:"payload"` // as Event's
	Signature string          `json:"signature" doc:"Base64 of the ed25519 signature over the compact JSON of the members before it, in their order."`
}

// PolicyUpdated has the rules of one policy that a node must apply now.
type PolicyUpdated struct {
	NodeID       string    `json:"node_id"`
	PolicyID     uuid.UUID `json:"policy_id" doc:"The id of the policy."`
	RevisionID   uuid.UUID `json:"revision_id" doc:"The id of the head of the policy, or of a deleted one its last."`
	Fingerprint  string    `json:"fingerprint"`
	Rules        []Rule    `json:"rules" doc:"The rules in canonical order; none when the policy is no longer the node's."`
	RulesOmitted int       `json:"rules_omitted,omitempty" doc:"How many of the policy's rules are left out because the node contract cannot express them; absent when none are."` // that the node contract cannot express
	Resolved     bool      `json:"resolved,omitempty" doc:"True where the rules do not say by themselves what the node enforces, because something of the policy is ordered policy: the node takes its rules from its state. Absent otherwise."`
}

// NodeStateUpdated asks a node to pull its whole state.
type NodeStateUpdated struct {
	NodeID string `json:"node_id"`
	Reason string `json:"reason" doc:"Why."`
}

// KeyRotated announces the plane's new key to a node, under the key before it.
type KeyRotated struct {
	KeyID             string    `json:"key_id"`
	PublicKey         string    `json:"public_key" doc:"Base64 of the 32 bytes of the new key."`
	PreviousKeyID     string    `json:"previous_key_id"`
	TransitionExpires time.Time `json:"transition_expires" doc:"When the key before is no longer trusted."`
}

// LegacyKeyRotated announces it to an agent that registered in the legacy form.
type LegacyKeyRotated struct {
	Current           string    `json:"current" doc:"Base64 of the 32 bytes of the new key."`
	Previous          string    `json:"previous" doc:"Base64 of the 32 bytes of the key before."`
	TransitionExpires time.Time `json:"transition_expires" doc:"When the key before is no longer trusted."`
}
