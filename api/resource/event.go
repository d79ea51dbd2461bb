package resource

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// Event is the data of one event of a node's stream: signed by the plane as it
// is delivered.
type Event struct {
	ID        string          `json:"id"`
	Type      string          `json:"type"`
	Scope     string          `json:"scope"`
	KeyID     string          `json:"key_id"`
	IssuedAt  time.Time       `json:"issued_at"`
	Payload   json.RawMessage `json:"payload"` // PolicyUpdated, ArtifactUpdated or NodeStateUpdated, by Type
	Signature string          `json:"signature"`
}

// BatchEvent is the data of an event for a reader that asked for dialect=batch.
type BatchEvent struct {
	ID        string          `json:"id"`
	Type      string          `json:"type"`
	Scope     string          `json:"scope"`
	KeyID     string          `json:"key_id"`
	IssuedAt  time.Time       `json:"issued_at"`
	Payload   json.RawMessage `json:"payload"` // as Event's
	Signature EventSignature  `json:"signature"`
}

// EventSignature is over one event, or over a run of them with the proof that
// the event is in it.
type EventSignature struct {
	Alg   string  `json:"alg"`
	KeyID string  `json:"key_id"`
	Leaf  *int    `json:"leaf,omitempty"`
	Path  *string `json:"path,omitempty"`
	Size  *int    `json:"size,omitempty"`
	Value string  `json:"value"`
}

// LegacyEvent is the data of an event for an agent that registered in the
// legacy form.
type LegacyEvent struct {
	Type      string          `json:"event_type"`
	ID        string          `json:"event_id"`
	IssuedAt  time.Time       `json:"issued_at"`
	Nonce     string          `json:"nonce"`
	Payload   json.RawMessage `json:"payload"` // as Event's
	Signature string          `json:"signature"`
}

// PolicyUpdated tells a node the rules it has of one policy now.
type PolicyUpdated struct {
	NodeID       string    `json:"node_id"`
	PolicyID     uuid.UUID `json:"policy_id"`
	RevisionID   uuid.UUID `json:"revision_id"`
	Fingerprint  string    `json:"fingerprint"`
	Rules        []Rule    `json:"rules"`
	RulesOmitted int       `json:"rules_omitted,omitempty"` // that the node contract cannot express
}

// NodeStateUpdated tells a node to read its whole state.
type NodeStateUpdated struct {
	NodeID string `json:"node_id"`
	Reason string `json:"reason"`
}

// KeyRotated tells a node the plane's new key, under the one before it.
type KeyRotated struct {
	KeyID             string    `json:"key_id"`
	PublicKey         string    `json:"public_key"`
	PreviousKeyID     string    `json:"previous_key_id"`
	TransitionExpires time.Time `json:"transition_expires"`
}

// LegacyKeyRotated tells it to an agent that registered in the legacy form.
type LegacyKeyRotated struct {
	Current           string    `json:"current"`
	Previous          string    `json:"previous"`
	TransitionExpires time.Time `json:"transition_expires"`
}
