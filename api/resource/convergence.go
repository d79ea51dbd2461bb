package resource

import "time"

// Applied is what a node reports: up to which event it has applied what it was
// sent, and the fingerprint of the rules that it holds. EventID or Version is
// required.
type Applied struct {
	EventID     string `json:"event_id,omitempty" doc:"How far it has: the id of the last event it applied, or Edict-Event-Id of the state it pulled, whichever is greater. Decimal digits. Where it is given, version says nothing."`
	Version     uint64 `json:"version,omitempty" doc:"What agents say that know no event ids: the log sequence up to which it has, such as Edict-Log-Seq of the state it pulled. Not above the log's last. One of the two is required."`
	Fingerprint string `json:"fingerprint"` // base64 of 32 bytes, 44 characters
}

// Rollout says how far a policy has come.
type Rollout struct {
	Desired    int       `json:"desired" doc:"Nodes that must have its head."`
	Applied    int       `json:"applied" doc:"Of these, nodes that have it."`
	Dropped    int       `json:"dropped" doc:"Nodes it was taken from, by a revision or its deletion, that have let go of it."`
	Lagging    []Lagging `json:"lagging" doc:"Nodes that must still apply it, or let go of it, those behind for the longest first, as many as were asked for."`
	P50Seconds *float64  `json:"p50_seconds" doc:"Seconds from the commit of its last change until half of the nodes that it touched had reported it applied; null when that is known of none."`
	P99Seconds *float64  `json:"p99_seconds" doc:"The same for 99 of 100 nodes."`
	Refused    []Refused `json:"refused,omitempty" doc:"Nodes of the policy whose table is refused, so that they keep their last good one: those that asked this worker, and the first node of each label set. Absent when there are none."` // nodes that keep an older table
}

// Lagging is a node that has not applied what it should. Since is nil when the
// log could not be asked for the time.
type Lagging struct {
	NodeID string     `json:"node_id"`
	Since  *time.Time `json:"since" doc:"The log timestamp of the first change it is not known to have; of a node that holds other rules than it was sent, the time of its report. Null when the log did not answer."`
}

// Convergence says how far all nodes have come.
type Convergence struct {
	Desired  int       `json:"desired" doc:"Registered nodes."`
	Applied  int       `json:"applied" doc:"Nodes that hold what they must, and those of which nothing is asked."`
	Reported int       `json:"reported" doc:"Nodes that ever reported."`
	Lagging  []Lagging `json:"lagging" doc:"The others, those behind for the longest first, as many as were asked for."`
}
