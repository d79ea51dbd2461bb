package resource

import "time"

// Applied is what a node reports: how far it has applied what it was told, and
// the fingerprint of the rules it holds. One of EventID and Version is needed.
type Applied struct {
	EventID     string `json:"event_id,omitempty"`
	Version     uint64 `json:"version,omitempty"`
	Fingerprint string `json:"fingerprint"` // base64 of 32 bytes, 44 characters
}

// Rollout says how far a policy has come.
type Rollout struct {
	Desired    int       `json:"desired"`
	Applied    int       `json:"applied"`
	Dropped    int       `json:"dropped"`
	Lagging    []Lagging `json:"lagging"`
	P50Seconds *float64  `json:"p50_seconds"`
	P99Seconds *float64  `json:"p99_seconds"`
	Refused    []Refused `json:"refused,omitempty"` // nodes that keep an older table
}

// Lagging is a node that has not applied what it should. Since is nil when the
// log could not be asked for the time.
type Lagging struct {
	NodeID string     `json:"node_id"`
	Since  *time.Time `json:"since"`
}

// Convergence says how far all nodes have come.
type Convergence struct {
	Desired  int       `json:"desired"`
	Applied  int       `json:"applied"`
	Reported int       `json:"reported"`
	Lagging  []Lagging `json:"lagging"`
}
