package watch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unique"

	"github.com/edictdev/edict/policy"
)

// Frame is one message as a node got it, over either transport.
type Frame struct {
	ID      policy.EventID
	Prev    policy.EventID // the id before it for the node; over NATS alone
	Type    string         // policy_updated, artifact_updated, node_state_updated
	Node    string         // whom it is about
	Version uint64         // log sequence that the envelope of NATS is signed with; 0 over SSE
	KeyID   string         // that signed it

	// Of a policy_updated.
	Policy      string
	Revision    string
	Fingerprint string
	Rules       string // compact JSON, verbatim
	Omitted     int    // rules that are left out, as the message counts them
	// Of an artifact_updated.
	Kind, Name string
	Document   string // empty: it was withdrawn
	// Of the message to pull.
	Pull   bool
	Reason string

	name string // of the notice
}

// Session is a stretch of one client's life: a stream over SSE, an answer over
// NATS, what was live over NATS, or a pull of the node's state.
type Session struct {
	Over   string           // "SSE", "answer", "live" or "pull"
	After  policy.EventID   // what it resumed from; of a pull, what it may stream after
	Live   bool             // it named nothing to resume from
	From   uint64           // how far back the kept past of who served it reached, as read before; 0: all of the log, or not known
	Frames []Frame          // as they came: live ones may be doubled, and out of order
	UpTo   policy.EventID   // of an answer: complete up to here
	Pull   bool             // the answer itself said to pull, where that is no frame
	Rows   map[string]Frame // of a pull, by policy
	Broken string           // a frame that could not be read or did not verify, and why
}

// Record is everything one client of one node met, in order.
type Record struct {
	Node     string
	Sessions []Session
	Tables   bool // it enforces tables, and said so
	Settled  bool // the client has heard of the last event that concerns it
}

// readPayload reads what a message of a type tells.
func (f *Frame) readPayload(body []byte) error {
	var p struct {
		NodeID      string          `json:"node_id"`
		PolicyID    string          `json:"policy_id"`
		RevisionID  string          `json:"revision_id"`
		Fingerprint string          `json:"fingerprint"`
		Rules       json.RawMessage `json:"rules"`
		Omitted     int             `json:"rules_omitted"`
		Kind        string          `json:"kind"`
		Name        string          `json:"name"`
		Document    string          `json:"document"`
		Reason      string          `json:"reason"`
	}
	if err := json.Unmarshal(body, &p); err != nil {
		return err
	}
	if p.NodeID == "" || f.Node != "" && p.NodeID != f.Node {
		return fmt.Errorf("it is for node %q and tells of node %q", f.Node, p.NodeID)
	}
	f.Node = p.NodeID
	switch f.Type {
	case "node_state_updated":
		f.Pull, f.Reason = true, p.Reason
	case "artifact_updated":
		f.Kind, f.Name, f.Fingerprint, f.Document = p.Kind, p.Name, p.Fingerprint, once(p.Document)
	case "policy_updated":
		var text bytes.Buffer
		if err := json.Compact(&text, p.Rules); err != nil {
			return err
		}
		f.Policy, f.Revision, f.Fingerprint, f.Rules, f.Omitted = p.PolicyID, p.RevisionID, p.Fingerprint, once(text.String()), p.Omitted
	default:
		return fmt.Errorf("type %q is none that a node is told", f.Type)
	}
	return nil
}

// once is a text that memory holds once, however many nodes are told it.
func once(text string) string { return unique.Make(text).Value() }
