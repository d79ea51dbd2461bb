package resource

import "time"

// NodeReport says where a node stands with what is asked of it, and what it reported last.
type NodeReport struct {
	State string `json:"state" doc:"Where it stands: applied, it holds what it must, or nothing is asked of it and it never reported; lagging, it reported, and is not known to hold what it must; refused, it says that it could not put in force what it was sent; silent, something is asked of it, and it never reported."`
	// DesiredVersion and Version are log sequences.
	DesiredVersion uint64 `json:"desired_version" doc:"The log sequence of the last event that changed what it must hold, or the node itself."`
	Version        uint64 `json:"version,omitempty" doc:"The log sequence up to which its last report says that it applied what it was sent; absent when it never reported, or named none."`
	TableVersion   uint64 `json:"table_version,omitempty" doc:"The log sequence at which its last report says that the table in force was right; absent of a node that enforces no table."`
	Outcome        string `json:"outcome,omitempty" doc:"What its last report says; absent when it never reported."`
	Reason         string `json:"reason,omitempty" doc:"Why that is not applied, as the node said it; absent when it gave no reason, or the worker does not know it any more."`
	// Since and AgeSeconds are nil when it never reported.
	Since      *time.Time `json:"since,omitempty" doc:"When that report arrived, or the first that said the same in a row; after a restart of the worker, when the last one did. Absent when it never reported."`
	AgeSeconds *float64   `json:"age_seconds,omitempty" doc:"How many seconds ago that was, by the clock of the worker that answers."`
}

// ByState counts nodes by where they stand.
type ByState struct {
	Nodes   int `json:"nodes" doc:"How many there are."`
	Applied int `json:"applied" doc:"Those that hold what they must, and those that never reported and of which nothing is asked."`
	Lagging int `json:"lagging" doc:"Those that reported, and are not known to hold what they must."`
	Refused int `json:"refused" doc:"Those that say that they could not put in force what they were sent."`
	Silent  int `json:"silent" doc:"Those of which something is asked, and that never reported."`
}

// NodeCounts are nodes by where they stand, and by the value of a label where that was
// asked for.
type NodeCounts struct {
	Seq uint64 `json:"seq" doc:"The log sequence that the worker had folded when it counted. Of more than 4096 nodes that may be a second ago, and seldom longer."`
	ByState
	By     string      `json:"by,omitempty" doc:"The key of the label that groups are of."`
	Values *int        `json:"values,omitempty" doc:"How many groups there are; groups lists the first of them."`
	Groups []NodeGroup `json:"groups,omitempty" doc:"Nodes by the label's value, the group with the most nodes first that have not applied what they must."`
}

// NodeGroup are the nodes that have one value of a label. Value is nil for those that do
// not have the label.
type NodeGroup struct {
	Value *string `json:"value" doc:"The value; null for the nodes without the label."`
	ByState
}

// PastCounts are the nodes that there were at a moment of the past, by the value of a label
// where that was asked for. What they reported is not in the log.
type PastCounts struct {
	Seq    uint64      `json:"seq" doc:"The moment."`
	Nodes  int         `json:"nodes" doc:"How many."`
	By     string      `json:"by,omitempty" doc:"The key."`
	Values *int        `json:"values,omitempty" doc:"Likewise."`
	Groups []PastGroup `json:"groups,omitempty" doc:"The largest first."`
}

// PastGroup are the nodes that had one value of a label. Value is nil for those that did not
// have the label.
type PastGroup struct {
	Value *string `json:"value" doc:"Null: none."`
	Nodes int     `json:"nodes" doc:"How many."`
}
