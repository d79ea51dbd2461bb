package policy

import "github.com/google/uuid"

// Event is a fact of the log. The set is closed: RevisionCreated,
// PolicyDeleted, NodeUpdated, NodeRemoved, ArtifactReleased, ArtifactWithdrawn,
// AdmissionPolicyUpdated, AdmissionPolicyDeleted, PrincipalUpdated,
// PrincipalRemoved, RelationWritten, RelationRemoved, NodeRegistered, KeyRotated.
type Event interface {
	// EventID identifies the event; EventType is its name on the wire.
	EventID() uuid.UUID
	EventType() string
	// Scope is the project that owns what the event is about; uuid.Nil when it
	// belongs to the plane.
	Scope() uuid.UUID
	isEvent()
}

// Names of the events on the wire.
const (
	TypeRevisionCreated = "policy_revision_created"
	TypePolicyDeleted   = "policy_deleted"
	TypeNodeUpdated     = "node_updated"
	TypeNodeRemoved     = "node_removed"

	TypeArtifactReleased  = "artifact_released"
	TypeArtifactWithdrawn = "artifact_withdrawn"

	TypeAdmissionPolicyUpdated = "admission_policy_updated"
	TypeAdmissionPolicyDeleted = "admission_policy_deleted"

	TypePrincipalUpdated = "principal_updated"
	TypePrincipalRemoved = "principal_removed"
	TypeRelationWritten  = "relation_written"
	TypeRelationRemoved  = "relation_removed"
	TypeNodeRegistered   = "node_registered"

	TypeKeyRotated = "signing_key_rotated"
)

// RevisionCreated publishes a revision of a policy, the first included.
type RevisionCreated struct {
	ID          uuid.UUID
	Project     uuid.UUID
	Policy      uuid.UUID
	Slug        string
	DisplayName string
	Revision    Revision
}

// PolicyDeleted ends a policy. Its id stays used; its slug is free again.
type PolicyDeleted struct {
	ID      uuid.UUID
	Project uuid.UUID
	Policy  uuid.UUID
}

// NodeUpdated states a node's present labels and addresses, whole.
type NodeUpdated struct {
	ID        uuid.UUID
	Project   uuid.UUID
	Node      NodeID
	Labels    Labels
	Addresses Addresses
}

// NodeRemoved ends a node.
type NodeRemoved struct {
	ID      uuid.UUID
	Project uuid.UUID
	Node    NodeID
}

// EventID implements Event.
func (e RevisionCreated) EventID() uuid.UUID { return e.ID }

// EventID implements Event.
func (e PolicyDeleted) EventID() uuid.UUID { return e.ID }

// EventID implements Event.
func (e NodeUpdated) EventID() uuid.UUID { return e.ID }

// EventID implements Event.
func (e NodeRemoved) EventID() uuid.UUID { return e.ID }

// EventType implements Event.
func (RevisionCreated) EventType() string { return TypeRevisionCreated }

// EventType implements Event.
func (PolicyDeleted) EventType() string { return TypePolicyDeleted }

// EventType implements Event.
func (NodeUpdated) EventType() string { return TypeNodeUpdated }

// EventType implements Event.
func (NodeRemoved) EventType() string { return TypeNodeRemoved }

// Scope implements Event.
func (e RevisionCreated) Scope() uuid.UUID { return e.Project }

// Scope implements Event.
func (e PolicyDeleted) Scope() uuid.UUID { return e.Project }

// Scope implements Event.
func (e NodeUpdated) Scope() uuid.UUID { return e.Project }

// Scope implements Event.
func (e NodeRemoved) Scope() uuid.UUID { return e.Project }

func (RevisionCreated) isEvent() {}
func (PolicyDeleted) isEvent()   {}
func (NodeUpdated) isEvent()     {}
func (NodeRemoved) isEvent()     {}
