package node

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// Types of events that a Follower acts on. Others are verified and yielded
// unchanged.
const (
	TypePolicyUpdated = wire.TypePolicyUpdated
	TypeStateUpdated  = wire.TypeStateUpdated
)

// Event is one verified event of a node.
type Event struct {
	// ID rises from event to event, except for a node_state_updated, which can replace
	// events that can no longer be sent in order.
	ID   policy.EventID
	Type string
	// Notice is the signed event as it came over SSE, Envelope the signed
	// message as it came over NATS; the other is zero. Both are zero in a
	// node_state_updated that the header of an answer over NATS asks for, or that the
	// Follower made itself.
	Notice   artifact.Notice
	Envelope artifact.Envelope
	// Traceparent names the trace of the change that the event is about, as W3C Trace
	// Context writes it; empty: none was said. It is not signed.
	Traceparent string
	// Policy is the decoded payload of a policy_updated, nil in others.
	Policy *artifact.PolicyPayload
	// Reason is that of a node_state_updated (artifact.ReasonResync …).
	Reason string
	// Pulled is the state that was fetched because of a node_state_updated, or of a
	// policy_updated where the block of the node is resolved.
	Pulled *State
	// Again is set of a policy_updated that says what the rows of the Follower said before it,
	// and that is not Covered: over NATS, new labels send a row that stays under a new id.
	Again bool
	// Covered is set when an earlier pull already had the event: the rows of the
	// Follower are at or after it.
	Covered bool
}

// maxTrace bounds a traceparent, in bytes, of which W3C's has 55. Nobody signs it, and it
// is kept until its change is in force.
const maxTrace = 256

// boundedTrace is a traceparent; empty where it is too long for one.
func boundedTrace[T string | []byte](text T) string {
	if len(text) > maxTrace {
		return ""
	}
	return string(text)
}

// refusal is why an event is refused.
type refusal struct {
	id    string
	cause error
}

func (r *refusal) Error() string { return fmt.Sprintf("event %.40q: %v", r.id, r.cause) }
func (r *refusal) Unwrap() error { return r.cause }

// decodeEvent turns a frame whose notice was verified into an event.
func decodeEvent(id policy.NodeID, f frame, n artifact.Notice) (Event, error) {
	at, err := policy.ParseEventID(f.id)
	if err != nil {
		return Event{}, fmt.Errorf("%w frame: %w", artifact.ErrMalformed, err)
	}
	if want := "node:" + string(id); n.Scope != want {
		return Event{}, fmt.Errorf("its scope is %.80q, not %q", n.Scope, want)
	}
	e := Event{ID: at, Type: n.Type, Notice: n, Traceparent: f.trace}
	switch n.Type {
	case TypePolicyUpdated:
		return decodePolicy(id, e)
	case TypeStateUpdated:
		e.Reason, err = decodePull(id, n.Payload)
		return e, err
	}
	return e, nil
}

func decodePolicy(id policy.NodeID, e Event) (Event, error) {
	// The id that is signed binds the one beside the data, which is not.
	if want := string(id) + "." + e.ID.String(); e.Notice.ID != want {
		return Event{}, fmt.Errorf("its notice is %.100q, not %q", e.Notice.ID, want)
	}
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
	return e, nil
}

// decodePayload reads a payload, which must be for the node, with rules that match
// their fingerprint.
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

// decodeEnvelope turns an envelope whose signature was verified into an event,
// and returns the last part of its subject. A kind other than policy and state is that
// of an artifact.
func decodeEnvelope(id policy.NodeID, at policy.EventID, env artifact.Envelope) (e Event, name string, err error) {
	e = Event{ID: at, Type: TypeArtifactUpdated, Envelope: env}
	if err := env.Expect(artifact.Identity{Node: string(id), Plane: artifact.PlanePolicy, Kind: env.Kind, Name: env.Name}); err != nil {
		return Event{}, "", err
	}
	switch env.Kind {
	case artifact.KindState:
		e.Type = TypeStateUpdated
		e.Reason, err = decodePull(id, env.Payload)
		return e, wire.NameState, err
	case artifact.KindPolicy:
		return decodeRow(id, e)
	}
	r, err := decodeReleased(id, env.Payload)
	if err == nil {
		about := r.Name
		if r.Rete != "" {
			about += "." + r.Rete
		}
		if r.Kind != env.Kind || about != env.Name {
			err = fmt.Errorf("it is artifact %.40s %.80s, but its payload is about %.40s %.80s", env.Kind, env.Name, r.Kind, about)
		}
	}
	return e, wire.PrefixArtifact + env.Kind + "." + env.Name, err
}

func decodeRow(id policy.NodeID, e Event) (Event, string, error) {
	p, err := decodePayload(id, e.Envelope.Payload)
	if err != nil {
		return Event{}, "", err
	}
	if e.Envelope.Name != p.PolicyID.String() {
		return Event{}, "", fmt.Errorf("its name is %.80q, but its rules are those of policy %s", e.Envelope.Name, p.PolicyID)
	}
	e.Type, e.Policy = TypePolicyUpdated, &p
	return e, e.Envelope.Name, nil
}

// decodePull reads the reason of a node_state_updated.
func decodePull(id policy.NodeID, payload []byte) (reason string, err error) {
	p, err := artifact.ParseStatePayload(payload)
	if err != nil {
		return "", err
	}
	if p.NodeID != id {
		return "", fmt.Errorf("it is about node %q", p.NodeID)
	}
	return p.Reason, nil
}
