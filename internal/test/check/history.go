// Package check judges histories: what clients met over SSE and NATS, against
// the events of the log alone. It is pure: who drives a plane records, with
// package watch, and Judge says which promise of docs/design.md#what-we-promise was broken,
// where, and by which rule. It shares no code with what it judges; what an event
// changed for a node, and what an id may say, comes from the oracle.
package check

import "github.com/edictdev/edict/internal/test/watch"

// Event is one message of the log.
type Event struct {
	Seq      uint64
	Subject  string // empty: not recorded
	Body     []byte
	Rejected string // the fold's code; empty: it was accepted, or met again
}

// Ack is the log's own answer to a producer that an event is stored.
type Ack struct {
	Seq     uint64
	Subject string
	Event   string // its id
}

// Run is everything that was recorded of one plane.
type Run struct {
	Base    uint64            // of the log
	Log     []Event           // from the first on
	Acks    []Ack             // that producers got
	Breaks  []uint64          // sequences up to which a loss was accepted without another base
	Heard   []watch.Frame     // what was published over NATS, as far as it was heard, in any order, doubles too
	Records []watch.Record    // of clients
	States  map[string]string // GET state of each node at the end, by node
	Digests map[string]string // of stores that stand at one sequence, by worker
}
