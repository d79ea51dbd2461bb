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
	// the word to pull that a stream older than the cursor begins with, or that
	// over NATS stands for what can no longer be told in its place.
	Seq  uint64
	Type string
	// Notice is the signed event as it came over SSE, Envelope the signed
	// message as it came over NATS; the other is zero. Both are zero in a word
	// to pull over NATS.
	Notice   artifact.Notice
	Envelope artifact.Envelope
	// Policy is the decoded payload of a policy_updated, nil in others.
	Policy *artifact.PolicyPayload
	// Version is the log sequence of the cause of a policy_updated.
	Version uint64 // over NATS of an artifact_updated too
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
	p, err := decodePayload(id, e.Notice.Payload)
	if err != nil {
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

// decodePayload reads rules that must be the node's, and those of their
// fingerprint.
func decodePayload(id policy.NodeID, doc []byte) (artifact.PolicyPayload, error) {
	p, err := artifact.ParsePolicyPayload(doc)
	if err != nil {
		return p, err
	}
	if p.NodeID != id {
		return p, fmt.Errorf("its rules are those of node %q", p.NodeID)
	}
	return p, p.Verify()
}

// decodeEnvelope turns an envelope whose signature was verified into an event.
// Everything but a policy is an artifact.
func decodeEnvelope(id policy.NodeID, seq uint64, env artifact.Envelope) (Event, error) {
	e := Event{Seq: seq, Type: TypeArtifactUpdated, Version: env.Version, Envelope: env}
	if err := env.Expect(artifact.Identity{Node: string(id), Plane: artifact.PlanePolicy, Kind: env.Kind, Name: env.Name}); err != nil {
		return Event{}, err
	}
	if env.Kind != artifact.KindPolicy {
		r, err := decodeReleased(id, env.Payload)
		if err == nil && (r.Kind != env.Kind || r.Name != env.Name) {
			err = fmt.Errorf("it is artifact %.40s %.80s, but tells of %.40s %.80s", env.Kind, env.Name, r.Kind, r.Name)
		}
		return e, err
	}
	p, err := decodePayload(id, env.Payload)
	if err != nil {
		return Event{}, err
	}
	if env.Name != p.PolicyID.String() {
		return Event{}, fmt.Errorf("its name is %.80q, but its rules are those of policy %s", env.Name, p.PolicyID)
	}
	e.Type, e.Policy = TypePolicyUpdated, &p
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
