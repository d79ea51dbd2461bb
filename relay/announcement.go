package relay

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/compiler"
	"github.com/edictdev/edict/streams"
	"github.com/google/uuid"
)

// announcement tells one node what one policy is to it from one log sequence
// on. Its key is (version, policy, node).
type announcement struct {
	key         Key // its Policy is policy's text
	policy      uuid.UUID
	revision    uuid.UUID
	fingerprint compiler.Fingerprint
	time        time.Time // log timestamp of key.Seq
	gone        bool      // the node has no row any more: rules are []
}

func (a announcement) id() string {
	return string(a.key.Node) + "." + a.key.Policy + "." + strconv.FormatUint(a.key.Seq, 10)
}

// ruleset is a rule payload as it travels, and in the form that is signed.
type ruleset struct {
	wire      []byte // section 4's payload, verbatim
	canonical []byte // RFC 8785
}

// envelopeRoom is more than an announcement takes on the wire beside its rules:
// subject, headers and the fields of the envelope.
const envelopeRoom = 1280

func (r *ruleset) size() int { return len(r.wire) + envelopeRoom }

// sealer turns announcements into signed messages. Safe for many goroutines.
type sealer struct {
	signer *artifact.Signer
	log    string
	ttl    time.Duration // of tombstones

	mu    sync.Mutex
	rules map[compiler.Fingerprint]*ruleset
	held  int // bytes in rules
}

// rulesHeld bounds the canonical rules kept for further nodes, in bytes. A
// fan-out meets few rule lists and many nodes.
const rulesHeld = 64 << 20

func newSealer(signer *artifact.Signer, log string, tombstones time.Duration) *sealer {
	return &sealer{signer: signer, log: log, ttl: tombstones, rules: map[compiler.Fingerprint]*ruleset{}}
}

// ruleset finds the rules of an announcement; canonical form is made once per
// fingerprint.
func (s *sealer) ruleset(a announcement, source Outbox) (*ruleset, error) {
	fp := a.fingerprint
	s.mu.Lock()
	r := s.rules[fp]
	s.mu.Unlock()
	if r != nil {
		return r, nil
	}
	wire := compiler.Empty.Payload
	if !a.gone {
		var err error
		if wire, err = source.Payload(fp); err != nil {
			return nil, fmt.Errorf("rules of policy %s at %d: %w", a.key.Policy, a.key.Seq, err)
		}
	}
	canonical, err := artifact.Canonical(wire)
	if err != nil {
		return nil, fmt.Errorf("rules of policy %s at %d: %w", a.key.Policy, a.key.Seq, err)
	}
	r = &ruleset{wire: wire, canonical: canonical}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held > rulesHeld {
		clear(s.rules)
		s.held = 0
	}
	s.rules[fp] = r
	s.held += len(r.wire) + len(r.canonical)
	return r, nil
}

// message is the announcement as it is published.
func (s *sealer) message(a announcement, r *ruleset) (streams.Outgoing, error) {
	body, err := s.body(a, r)
	if err != nil {
		return streams.Outgoing{}, fmt.Errorf("announce %s: %w", a.id(), err)
	}
	m := streams.Outgoing{
		Subject: streams.NodeSubject(a.key.Node, a.key.Policy),
		Header: []string{
			streams.HeaderEdictID, a.id(),
			streams.HeaderEdictLogSeq, strconv.FormatUint(a.key.Seq, 10),
			streams.HeaderEdictLog, s.log,
		},
		Body: body,
	}
	if a.gone {
		m.TTL = s.ttl
	}
	return m, nil
}

// body is the signed envelope.
func (s *sealer) body(a announcement, r *ruleset) ([]byte, error) {
	p := artifact.PolicyPayload{
		NodeID: a.key.Node, PolicyID: a.policy, RevisionID: a.revision, Fingerprint: a.fingerprint, Rules: r.wire,
	}
	return s.signer.SealCanonical(artifact.Envelope{
		Plane: artifact.PlanePolicy, Kind: artifact.KindPolicy, Name: a.key.Policy,
		Version: a.key.Seq, Node: string(a.key.Node), GeneratedAt: a.time,
		Payload: p.Append(make([]byte, 0, r.size())),
	}, p.AppendCanonical(make([]byte, 0, r.size()), r.canonical))
}
