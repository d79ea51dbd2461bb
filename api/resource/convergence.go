package resource

import (
	"time"

	"github.com/google/uuid"
)

// Applied is what a node reports: up to which event it has applied what it was
// sent, the fingerprint of the rules that it holds then, and whether they are in
// force. EventID or Version is required.
type Applied struct {
	EventID     string `json:"event_id,omitempty" doc:"How far it has: the id of the last event it applied, or Edict-Event-Id of the state it pulled, whichever is greater. Decimal digits. Where it is given, version says nothing."`
	Version     uint64 `json:"version,omitempty" doc:"What agents say that know no event ids: the log sequence up to which it has, such as Edict-Log-Seq of the state it pulled. Not above the log's last. One of the two is required."`
	Fingerprint string `json:"fingerprint"` // base64 of 32 bytes, 44 characters
	Outcome     string `json:"outcome,omitempty" doc:"Whether the rules are in force. applied, as when absent: they are. refused: they could not be put in force. stale: the node could not learn for too long whether they are still right. drift: something else was in force, until the node put it right. Of all but the first the report does not count as applied."`
	Reason      string `json:"reason,omitempty" doc:"Why they are not, for people: one line."`

	TableVersion uint64 `json:"table_version,omitempty" doc:"Of a node that enforces tables: a log sequence at which the table in force was right, Edict-Log-Seq of the last answer that served or confirmed it. Not above the log's last."`

	Audited []AuditCount `json:"audited,omitempty" doc:"What policies in audit mode would have denied since the node began to count, at most 16 of them."`
}

// Rollout says how far a policy has come.
type Rollout struct {
	Desired    int       `json:"desired" doc:"Nodes that must have its head."`
	Applied    int       `json:"applied" doc:"Of these, nodes that have it."`
	Dropped    int       `json:"dropped" doc:"Nodes it was taken from, by a revision or its deletion, that have let go of it."`
	Lagging    []Lagging `json:"lagging" doc:"Nodes that must still apply it, or let go of it, those behind for the longest first, as many as were asked for."`
	Waves      *Waves    `json:"waves,omitempty" doc:"The revision that is or was staged last, and how far its rollout has come. Absent when there never was one."`
	P50Seconds *float64  `json:"p50_seconds" doc:"Seconds from the commit of its last change until half of the nodes that it touched had reported it applied; null when that is known of none."`
	P99Seconds *float64  `json:"p99_seconds" doc:"The same for 99 of 100 nodes."`
	Refused    []Refused `json:"refused,omitempty" doc:"Nodes of the policy whose table is refused, so that they keep their last good one: those that asked this worker, and the first node of each label set. Absent when there are none."` // nodes that keep an older table
	Refusals   []Refusal `json:"refusals,omitempty" doc:"Of the lagging nodes, those that reported that something is not applied, those that do so for the longest first, as many as were asked for. Absent when there are none."`
	Arrivals   []Arrival `json:"arrivals,omitempty" doc:"How its changes arrived, the last one first: those of which any node's time is known, and before the last one those that this worker heard the reports of, at most eight in all."`
	Audited    *Audited  `json:"audited,omitempty" doc:"What nodes would have denied, of a policy in audit mode. Absent for others."`
}

// Arrival is how a change of a policy arrived.
type Arrival struct {
	LogSeq     uint64         `json:"log_seq" doc:"The log sequence of the change."`
	RevisionID *uuid.UUID     `json:"revision_id,omitempty" doc:"The revision that it gave to nodes; absent when it took one away, or was too long ago."`
	Time       *time.Time     `json:"time,omitempty" doc:"Its log timestamp; absent when it was too long ago."`
	Nodes      int            `json:"nodes" doc:"Nodes whose time is known."`
	P50Seconds *float64       `json:"p50_seconds" doc:"Seconds until half of these had reported it applied."`
	P99Seconds *float64       `json:"p99_seconds" doc:"The same for 99 of 100."`
	Curve      []ArrivalPoint `json:"curve" doc:"How many of these had it after how long, by time; times are exact to 9 %."`
}

// ArrivalPoint is a point of the curve by which a change arrived.
type ArrivalPoint struct {
	Seconds float64 `json:"seconds" doc:"How long after the commit."`
	Nodes   int     `json:"nodes" doc:"How many nodes had it by then."`
}

// Refusal is a node that reported that it does not have in force what it was sent.
type Refusal struct {
	NodeID  string    `json:"node_id"`
	Outcome string    `json:"outcome" doc:"What its last report says."`
	Reason  string    `json:"reason,omitempty" doc:"Why, as the node said it; absent when it gave no reason, or the worker does not know it any more."`
	Since   time.Time `json:"since" doc:"When the node's first report of this outcome in a row arrived; after a restart of the worker, its last one."`
}

// Lagging is a node that has not applied what it should. Since is nil when the
// log could not be asked for the time.
type Lagging struct {
	NodeID string     `json:"node_id"`
	Since  *time.Time `json:"since" doc:"The log timestamp of the first change it is not known to have, or of the last one of its own labels or addresses where that came after; of a node that holds other rules than it was sent, the time of its report. Null when the log did not answer."`
}

// Convergence says how far all nodes have come.
type Convergence struct {
	Desired  int       `json:"desired" doc:"Registered nodes."`
	Applied  int       `json:"applied" doc:"Nodes that hold what they must, and those of which nothing is asked."`
	Reported int       `json:"reported" doc:"Nodes that ever reported."`
	Lagging  []Lagging `json:"lagging" doc:"The others, those behind for the longest first, as many as were asked for."`
	ByState  *ByState  `json:"by_state,omitempty"`
	// NotApplied counts nodes by what they reported last.
	NotApplied NotApplied `json:"not_applied" doc:"Nodes whose last report says that something is not applied, by outcome."`
}

// NotApplied counts the nodes whose last report says that something is not applied,
// by outcome.
type NotApplied struct {
	Refused int `json:"refused" doc:"Nodes that could not put in force what they were sent."`
	Stale   int `json:"stale" doc:"Nodes that could not learn for too long whether what is in force is still right."`
	Drift   int `json:"drift" doc:"Nodes on which something else was in force when they looked last, and that put it right."`
}
