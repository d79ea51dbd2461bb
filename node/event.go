package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/policy"
)

// Types of events that mean something to a Follower. Others are verified and
// yielded as they came.
const (
	TypePolicyUpdated = "policy_updated"
	TypeStateUpdated  = "node_state_updated"
)

// Event is one verified event of a node's stream.
type Event struct {
	// Seq is the node stream's sequence. It rises from event to event, but for
	// the word to pull that a stream older than the cursor begins with.
	Seq    uint64
	Type   string
	Notice artifact.Notice
	// Policy is the decoded payload of a policy_updated, nil in others.
	Policy *artifact.PolicyPayload
	// Version is the log sequence of the cause of a policy_updated.
	Version uint64
	// Pulled is the state that was fetched because of a node_state_updated.
	Pulled *State
	// Covered is set when a pull already told what the event says: the rows of
	// the Follower stand at or after it.
	Covered bool
}

// refusal is why an event must not be acted upon.
type refusal struct {
	seq   string
	cause error
}

func (r *refusal) Error() string { return fmt.Sprintf("event %.40q: %v", r.seq, r.cause) }
func (r *refusal) Unwrap() error { return r.cause }

// decodeEvent turns a frame whose notice was verified into an event.
func decodeEvent(id policy.NodeID, f frame, n artifact.Notice) (Event, error) {
	seq, err := strconv.ParseUint(f.id, 10, 64)
	if err != nil {
		return Event{}, errors.New("the id is not a sequence number")
	}
	if want := "node:" + string(id); n.Scope != want {
		return Event{}, fmt.Errorf("its scope is %.80q, not %q", n.Scope, want)
	}
	e := Event{Seq: seq, Type: n.Type, Notice: n}
	switch n.Type {
	case TypePolicyUpdated:
		return decodePolicy(id, e)
	case TypeStateUpdated:
		return e, checkTarget(id, n.Payload)
	}
	return e, nil
}

func decodePolicy(id policy.NodeID, e Event) (Event, error) {
	p, err := artifact.ParsePolicyPayload(e.Notice.Payload)
	if err != nil {
		return Event{}, err
	}
	if p.NodeID != id {
		return Event{}, fmt.Errorf("its rules are those of node %q", p.NodeID)
	}
	if err := p.Verify(); err != nil {
		return Event{}, err
	}
	// The stream breaks long data into lines, which leave white space behind.
	var verbatim bytes.Buffer
	if err := json.Compact(&verbatim, p.Rules); err != nil {
		return Event{}, err
	}
	p.Rules = verbatim.Bytes()
	e.Policy = &p
	// Edict names its notices <node>.<policy>.<log seq>; an id of another form
	// has no version to compare.
	if i := strings.LastIndexByte(e.Notice.ID, '.'); i >= 0 {
		e.Version, _ = strconv.ParseUint(e.Notice.ID[i+1:], 10, 64)
	}
	return e, nil
}

func checkTarget(id policy.NodeID, payload []byte) error {
	var p struct {
		NodeID string `json:"node_id"`
	}
	if err := json.Unmarshal(payload, &p); err != nil {
		return fmt.Errorf("payload: %w", err)
	}
	if p.NodeID != string(id) {
		return fmt.Errorf("it is about node %.80q", p.NodeID)
	}
	return nil
}
