package artifact

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/fault"
	"github.com/edictdev/edict/policy"
)

// Message is what one node is sent about one policy as of one log sequence: an
// envelope of plane "policy" with a PolicyPayload, before it is signed
// (docs/design.md#delivery). With PrepareState it has the node pull instead.
type Message struct {
	Node        policy.NodeID
	Policy      uuid.UUID
	Revision    uuid.UUID
	Version     uint64    // the causing event's log sequence; at most MaxInteger
	GeneratedAt time.Time // that event's log timestamp
	Rules       *PreparedRules
}

// PreparedRules is a rule payload as it travels and as it is signed, made once
// for all nodes that share it. It never changes, so goroutines may share it too.
type PreparedRules struct {
	fingerprint digest
	wire        []byte // verbatim
	canonical   []byte // RFC 8785
	after       []byte // the member that counts them, in either form; none for 0
	reason      string // not rules: the node is to pull, for this reason
	resolved    bool   // PolicyPayload.Resolved
}

// PrepareRules makes the signed form of a compiled payload (docs/design.md#compile).
// The payload is kept, not copied; omitted counts the rules it leaves out. An
// error means that it is not an array that can be signed: see Canonical.
func PrepareRules(payload []byte, omitted int) (*PreparedRules, error) {
	canonical, err := Canonical(payload)
	if err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	if canonical[0] != '[' {
		return nil, fmt.Errorf("rules are not an array: %.40q", payload)
	}
	return &PreparedRules{sha256.Sum256(payload), payload, canonical, appendOmitted(nil, omitted), "", false}, nil
}

// Resolved are the same rules, of which the payload says that they do not say by
// themselves what the node enforces (PolicyPayload.Resolved).
func (r *PreparedRules) Resolved() *PreparedRules {
	c := *r
	c.resolved = true
	return &c
}

// PrepareState is what a Message has in place of rules to have nodes pull their state,
// for one of the reasons of StatePayload. Policy and Revision are not used then.
func PrepareState(reason string) *PreparedRules { return &PreparedRules{reason: reason} }

// Size is how many bytes the rules hold, in both forms.
func (r *PreparedRules) Size() int { return len(r.wire) + len(r.canonical) }

// envelopeOverhead is more than a sealed message has besides its rules: 63
// characters of node id twice, and a proof of six hashes.
const envelopeOverhead = 1024

// check refuses what would be signed but could not be opened.
func (a *Message) check() error {
	if _, err := policy.ParseNodeID(string(a.Node)); err != nil {
		return err
	}
	if a.Version > MaxInteger {
		return fmt.Errorf("version %d is above %d", a.Version, uint64(MaxInteger))
	}
	if err := datable(a.GeneratedAt); err != nil {
		return err
	}
	if a.Rules == nil {
		return errors.New("there are no rules, not even empty ones")
	}
	return nil
}

// template holds everything of a message but its node and its rules, as bytes: a
// fan-out sends the same to many nodes. Nothing in it needs escaping. Names are in the
// order of RFC 8785, those of the payload as it is sent in the order of
// PolicyPayload.Append.
type template struct {
	of  Message // the message that it was made for last
	set bool

	head   []byte // up to the node
	signed [2][]byte
	wire   [2][]byte
	end    []byte // the version, which follows the signature
}

// The parts of a template are: head, node, [0], node again, [1], the rules
// and the count of those they omit, afterRules, and end. The signature of the travelling form stands before end.
const afterRules = `},"plane":"` + PlanePolicy + `","schema_version":"` + SchemaVersion + `"`

// fill makes t the template of a, unless it is that already.
func (t *template) fill(a *Message) {
	if t.set && t.of.Rules == a.Rules && t.of.Version == a.Version && t.of.Policy == a.Policy &&
		t.of.Revision == a.Revision && t.of.GeneratedAt == a.GeneratedAt {
		return
	}
	t.of, t.set = *a, true
	t.end = strconv.AppendUint(append(t.end[:0], `,"version":`...), a.Version, 10)
	t.end = append(t.end, '}')
	if a.Rules.reason != "" {
		t.fillState(a)
		return
	}
	var fp [44]byte
	base64.StdEncoding.Encode(fp[:], a.Rules.fingerprint[:])
	if fault.Picks(fault.WrongFingerprint, int(a.Version%2), 2) { //nolint:gosec // 0 or 1
		slices.Reverse(fp[:43])
	}

	t.head = append(t.head[:0], `{"generated_at":"`...)
	t.head = a.GeneratedAt.UTC().AppendFormat(t.head, time.RFC3339Nano)
	t.head = appendUUID(append(t.head, `","kind":"`+KindPolicy+`","name":"`...), a.Policy)
	t.head = append(t.head, `","node":"`...)

	t.signed[0] = append(append(t.signed[0][:0], `","payload":{"fingerprint":"`...), fp[:]...)
	t.signed[0] = append(t.signed[0], `","node_id":"`...)
	t.signed[1] = appendUUID(append(t.signed[1][:0], `","policy_id":"`...), a.Policy)
	t.signed[1] = append(t.signed[1], '"')
	if a.Rules.resolved {
		t.signed[1] = append(t.signed[1], memberResolved...)
	}
	t.signed[1] = appendUUID(append(t.signed[1], `,"revision_id":"`...), a.Revision)
	t.signed[1] = append(t.signed[1], `","rules":`...)

	t.wire[0] = append(t.wire[0][:0], `","payload":{"node_id":"`...)
	t.wire[1] = appendUUID(append(t.wire[1][:0], `","policy_id":"`...), a.Policy)
	t.wire[1] = appendUUID(append(t.wire[1], `","revision_id":"`...), a.Revision)
	t.wire[1] = append(append(t.wire[1], `","fingerprint":"`...), fp[:]...)
	t.wire[1] = append(t.wire[1], `","rules":`...)
}

// fillState makes t the template of a message that has a node pull. Its two forms are
// equal.
func (t *template) fillState(a *Message) {
	t.head = a.GeneratedAt.UTC().AppendFormat(append(t.head[:0], `{"generated_at":"`...), time.RFC3339Nano)
	t.head = append(append(t.head, `","kind":"`+KindState+`","name":"`...), a.Rules.reason...)
	t.head = append(t.head, `","node":"`...)
	t.wire[0] = append(t.wire[0][:0], `","payload":{"node_id":"`...)
	t.wire[1] = append(append(t.wire[1][:0], `","reason":"`...), a.Rules.reason...)
	t.wire[1] = append(t.wire[1], '"')
	t.signed[0], t.signed[1] = append(t.signed[0][:0], t.wire[0]...), append(t.signed[1][:0], t.wire[1]...)
}

// appendHead appends what stands before the rules, in one of the two forms.
func (t *template) appendHead(b []byte, node policy.NodeID, form *[2][]byte) []byte {
	b = append(append(b, t.head...), node...)
	b = append(append(b, form[0]...), node...)
	return append(b, form[1]...)
}

// appendSigned appends the envelope as it is signed: Envelope.SigningBytes.
func (t *template) appendSigned(b []byte, a *Message) []byte {
	t.fill(a)
	b = t.appendHead(b, a.Node, &t.signed)
	b = append(append(append(b, a.Rules.canonical...), a.Rules.after...), afterRules...)
	return append(b, t.end...)
}

// appendWire appends the envelope as it travels, up to its signature.
func (t *template) appendWire(b []byte, a *Message) []byte {
	t.fill(a)
	b = t.appendHead(b, a.Node, &t.wire)
	b = append(append(b, a.Rules.wire...), a.Rules.after...)
	if a.Rules.resolved {
		b = append(b, memberResolved...)
	}
	return append(b, afterRules...)
}

// sizeOf is enough for all of list, sealed.
func sizeOf(list []Message) (n int) {
	for i := range list {
		if r := list[i].Rules; r != nil {
			n += len(r.wire) + envelopeOverhead
		}
	}
	return n
}

// SealRuns signs messages, cut into runs of up to MaxRun in their order,
// and calls emit with the wire form of each, in order: what Seal would make of
// it, but for the signature. A run costs one signature; each message of it
// carries its own proof and verifies alone. A run of one is signed plainly.
//
// The messages are appended to dst, which is returned; with room for them in
// dst little else is allocated. Each wire is a part of dst that nothing writes
// to again. An error names the message that cannot be signed; nothing was
// signed or emitted then. Many goroutines may seal with one Signer at once.
func (s *Signer) SealRuns(dst []byte, list []Message, emit func(i int, wire []byte)) ([]byte, error) {
	for i := range list {
		if err := list[i].check(); err != nil {
			return dst, fmt.Errorf("seal policy %s for node %q: %w", list[i].Policy, list[i].Node, err)
		}
	}
	dst = slices.Grow(dst, sizeOf(list))
	r := newRun(s)
	for from := 0; from < len(list); from += MaxRun {
		to := min(from+MaxRun, len(list))
		dst = r.seal(dst, list[from:to], func(i int, wire []byte) { emit(from+i, wire) })
	}
	return dst, nil
}
