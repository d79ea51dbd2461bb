package resource

import (
	"time"

	"github.com/google/uuid"
)

// LogEvent is an event of the log, as it was folded.
type LogEvent struct {
	AuditEntry
	Verdict   string `json:"verdict" doc:"What became of it: applied, or rejected, and then it changed nothing."`
	ProjectID string `json:"project_id,omitempty" doc:"The project that its subject names; absent of an event of the plane."`
	PolicyID  string `json:"policy_id,omitempty" doc:"The policy that its subject names."`
	NodeID    string `json:"node_id,omitempty" doc:"The node that its subject names."`
	// Nodes and Change are nil where they are not known cheaply, and of a rejected event.
	Nodes  *int         `json:"nodes,omitempty" doc:"How many nodes it changed the rules or the artifacts of: each is sent what it has now. Absent of other events, and of one that the worker folded long ago, in bulk, or before it started."`
	Change *EventChange `json:"change,omitempty" doc:"What it changed. Absent of events that change neither a head nor a node, where the worker does not know it any more, and for who may not read it."`
}

// EventChange is what an event changed: one of its members.
type EventChange struct {
	Policy *HeadChange `json:"policy,omitempty" doc:"The head of a policy."`
	Node   *NodeChange `json:"node,omitempty" doc:"A node's facts."`
}

// HeadChange is the change of a policy's head.
type HeadChange struct {
	RevisionID       uuid.UUID  `json:"revision_id" doc:"The head from then on."`
	ParentRevisionID *uuid.UUID `json:"parent_revision_id" doc:"The head before; null when it is the first."`
	Selectors        *Selectors `json:"selectors,omitempty" doc:"Whom it is for, before and from then on; absent when that stays."`
	Rules            Diff       `json:"rules" doc:"What became of the rules."`
}

// Selectors are a policy's before a change and from then on. Before is nil of a new policy.
type Selectors struct {
	Before *Selector `json:"before" doc:"Null of a new policy."`
	After  Selector  `json:"after" doc:"From then on."`
}

// NodeChange is the change of a node's facts.
type NodeChange struct {
	Created bool `json:"created,omitempty" doc:"The node was not there before."`
	Removed bool `json:"removed,omitempty" doc:"The node is not there any more."`
	// Before and After are nil where there were none.
	Before map[string]string `json:"labels_before,omitempty" doc:"Its labels before; absent when it had none, or was not there."`
	After  map[string]string `json:"labels,omitempty" doc:"Its labels from then on; absent when it has none, or was removed."`
	// Addresses are those from then on; those before are not kept.
	Addresses []string `json:"addresses,omitempty" doc:"Its addresses from then on; which it had before is not kept."`
}

// LogMoment is the end of the log as it was at a moment.
type LogMoment struct {
	At  time.Time `json:"at" doc:"The moment."`
	Seq uint64    `json:"seq" doc:"The last event that was stored then or before; 0 where the log begins later."`
}

// LogEnd is where a stream met the log's end for the first time.
type LogEnd struct {
	Seq uint64 `json:"seq" doc:"The last event that was folded then."`
}
