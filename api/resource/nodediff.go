package resource

import (
	"time"

	"github.com/google/uuid"
)

// NodeDiff is what became of a node between two moments of the log.
type NodeDiff struct {
	NodeID string       `json:"node_id"`
	From   NodeAt       `json:"from" doc:"The node at the first moment."`
	To     NodeAt       `json:"to" doc:"The node at the second."`
	Rows   []RowChange  `json:"rows" doc:"The rulesets that differ, by policy id."`
	Event  *ChangeEvent `json:"event,omitempty" doc:"The last event that gave the node its labels and addresses, where that is between the two."`
}

// NodeAt is a node at one moment. Facts are nil when it was not registered.
type NodeAt struct {
	Seq   uint64 `json:"seq" doc:"The moment: behind the event of this log sequence."`
	Facts *Facts `json:"facts" doc:"Null when the node was not registered."`
	ETag  string `json:"etag,omitempty" doc:"That of the node's state then; absent when it was not registered."`
}

// RowChange is a ruleset of a node that one moment has and the other has not, or has
// otherwise.
type RowChange struct {
	PolicyID uuid.UUID    `json:"policy_id"`
	Slug     string       `json:"slug,omitempty" doc:"What the policy was called; absent when it is not known any more."`
	Change   string       `json:"change"`
	Before   *RowRevision `json:"before,omitempty" doc:"Absent of a ruleset that was added."`
	After    *RowRevision `json:"after,omitempty" doc:"Absent of one that was removed."`
	Event    *ChangeEvent `json:"event,omitempty" doc:"The last event that changed it; absent where that is not known any more."`
}

// RowRevision is what a ruleset was compiled from, and what it came to.
type RowRevision struct {
	RevisionID  uuid.UUID `json:"revision_id"`
	Fingerprint string    `json:"fingerprint"`
}

// ChangeEvent is an event of the log that changed something.
type ChangeEvent struct {
	Seq     uint64    `json:"seq" doc:"Its log sequence."`
	Type    string    `json:"type" doc:"Its type."`
	EventID string    `json:"event_id" doc:"Its own id."`
	Time    time.Time `json:"time" doc:"When it was stored, by the log's clock."`
}
