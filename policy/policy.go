package policy

import (
	"time"

	"github.com/google/uuid"
)

// Policy is the aggregate an author edits: a slug, a name, and one head
// revision. Its history of revisions is append-only.
type Policy struct {
	ID          uuid.UUID
	Project     uuid.UUID
	Slug        string // unique among the project's living policies
	DisplayName string
	Head        Revision
	CreatedAt   time.Time // log timestamp of the first revision
	UpdatedAt   time.Time // log timestamp of the head revision
}

// Revision is one published state of a policy. Parent is uuid.Nil in the
// first one. CorrelationID is empty when the author gave none.
type Revision struct {
	ID            uuid.UUID
	Parent        uuid.UUID
	Selector      Selector
	Order         Order
	Rules         []Rule // author's order
	CreatedAt     time.Time
	CreatedBy     string
	CorrelationID string
}

// Node is a machine that enforces policy.
type Node struct {
	ID        NodeID
	Project   uuid.UUID
	Labels    Labels
	Addresses Addresses
}
