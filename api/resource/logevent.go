package resource

import "time"

// LogEvent is an event of the log, as it was folded.
type LogEvent struct {
	AuditEntry
	Verdict   string `json:"verdict" doc:"What became of it: applied, or rejected, and then it changed nothing."`
	ProjectID string `json:"project_id,omitempty" doc:"The project that its subject names; absent of an event of the plane."`
	PolicyID  string `json:"policy_id,omitempty" doc:"The policy that its subject names."`
	Policy    string `json:"policy,omitempty" doc:"That policy's slug."`
	NodeID    string `json:"node_id,omitempty" doc:"The node that its subject names."`
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
