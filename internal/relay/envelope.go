package relay

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// content is the content of a message, without the node that it is for: an item,
// that an item is gone, or that the node is to pull.
type content struct {
	projector.Item
	gone  bool
	state string // the reason to pull; "" for an item
	trace streams.Trace

	rules *artifact.PreparedRules // nil for an artifact, which is not sealed in runs

	// What is the same in every message, as text.
	name, event, seq, at, id, traceparent string
}

// outgoing is a message for one node.
type outgoing struct {
	*content
	node policy.NodeID
	prev policy.EventID // the id of the message before it for the node
}

// envelopes makes the signed messages of NATS. It is safe for concurrent use.
type envelopes struct {
	keys       *artifact.Keyring
	log        string
	maxPayload func() int // bytes of a message

	mu    sync.Mutex
	rules map[preparedKey]*artifact.PreparedRules
	held  int // bytes in rules
}

// preparedKey names the rules of rows that are sent in the same form.
type preparedKey struct {
	fingerprint compiler.Fingerprint
	extended    bool
}

// maxCachedRules bounds the cache of canonical rules, in bytes. A fan-out has few
// rule lists and many nodes.
const maxCachedRules = 64 << 20

// pullRules are what a message that has a node pull carries, by reason.
var pullRules = map[string]*artifact.PreparedRules{
	artifact.ReasonDatapath: artifact.PrepareState(artifact.ReasonDatapath),
	artifact.ReasonResync:   artifact.PrepareState(artifact.ReasonResync),
}

func newEnvelopes(keys *artifact.Keyring, log string, maxPayload func() int) *envelopes {
	return &envelopes{keys: keys, log: log, maxPayload: maxPayload, rules: map[preparedKey]*artifact.PreparedRules{}}
}

// itemContent is the content of a message about an item.
func (s *envelopes) itemContent(i projector.Item, gone bool, trace streams.Trace) (*content, error) {
	t := &content{Item: i, gone: gone, trace: trace}
	if i.Kind != "" {
		t.name, t.event = wire.PrefixArtifact+i.Kind+"."+i.Name, wire.TypeArtifactUpdated
	} else {
		t.name, t.event = i.Policy.String(), wire.TypePolicyUpdated
		var err error
		if t.rules, err = s.prepared(i, gone); err != nil {
			return nil, err
		}
	}
	t.spell()
	return t, nil
}

// pullContent is the content of a message that has a node pull, as of a sequence.
func (s *envelopes) pullContent(reason string, base, seq uint64, at time.Time) *content {
	t := &content{Item: projector.Item{ID: policy.EndOf(base, seq), Seq: seq, Time: at}, state: reason, rules: pullRules[reason]}
	t.name, t.event = wire.NameState, wire.TypeStateUpdated
	t.spell()
	return t
}

func (t *content) spell() {
	t.id, t.seq = t.ID.String(), strconv.FormatUint(t.Seq, 10)
	t.at = t.Time.UTC().Format(time.RFC3339Nano)
	if !t.trace.IsZero() {
		t.traceparent = t.trace.String()
	}
}

// prepared is the rules of a row, with the form that is signed, which is made once
// for all nodes that have the row.
func (s *envelopes) prepared(i projector.Item, gone bool) (*artifact.PreparedRules, error) {
	fp, payload := i.Fingerprint, i.Payload
	if gone {
		fp, payload = compiler.Empty.Fingerprint, compiler.Empty.Payload
	}
	key := preparedKey{fp, i.Extended && !gone}
	s.mu.Lock()
	r := s.rules[key]
	s.mu.Unlock()
	if r != nil {
		return r, nil
	}
	plain := compiler.Plain(payload, fp)
	r, err := artifact.PrepareRules(plain.Payload, plain.Omitted)
	if got := compiler.FingerprintOf(payload); err == nil && got != fp {
		err = fmt.Errorf("the read model gives %s for it: rebuild it", got)
	}
	if err != nil {
		return nil, fmt.Errorf("rules of policy %s at %d, fingerprint %s: %w", i.Policy, i.Seq, fp, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held > maxCachedRules {
		clear(s.rules)
		s.held = 0
	}
	if key.extended {
		r = r.Resolved()
	}
	s.rules[key] = r
	s.held += r.Size()
	return r, nil
}

// sealer seals messages. It holds the buffers of one goroutine.
type sealer struct {
	*envelopes
	list   []artifact.Message
	at     []int // for each of list, its index in what is sealed
	bodies [][]byte
	buf    []byte
	header map[string][]string
}

func (s *envelopes) sealer() *sealer {
	h := map[string][]string{}
	for _, name := range []string{
		wire.HeaderMsgID, wire.HeaderEdictID, wire.HeaderEventID, wire.HeaderPrev, wire.HeaderType, wire.HeaderLog, wire.HeaderLogSeq,
		wire.HeaderCEID, wire.HeaderCEType, wire.HeaderCESource, wire.HeaderCESpecVersion, wire.HeaderCETime,
	} {
		h[name] = []string{""}
	}
	h[wire.HeaderLog][0], h[wire.HeaderCESource][0], h[wire.HeaderCESpecVersion][0] = s.log, wire.SourcePlane, wire.CESpecVersion
	return &sealer{envelopes: s, header: h}
}

// seal signs messages by one key, artifacts one by one and all others in runs. It calls
// send with each, in order; headers and body are valid until send returns.
func (s *sealer) seal(by *artifact.Signer, lines []outgoing, send func(l *outgoing, header map[string][]string, body []byte) error) error {
	s.list, s.at, s.bodies = s.list[:0], s.at[:0], s.bodies[:0]
	for i := range lines {
		l := &lines[i]
		if l.rules == nil {
			body, err := s.document(by, l)
			if err != nil {
				return err
			}
			s.bodies = append(s.bodies, body)
			continue
		}
		s.bodies = append(s.bodies, nil)
		s.at = append(s.at, i)
		a := artifact.Message{Node: l.node, Version: l.Seq, GeneratedAt: l.Time, Rules: l.rules}
		if l.state == "" {
			a.Policy, a.Revision = l.Policy, l.Revision
		}
		s.list = append(s.list, a)
	}
	var err error
	s.buf, err = by.SealRuns(s.buf[:0], s.list, func(i int, wire []byte) { s.bodies[s.at[i]] = wire })
	if err != nil {
		return err
	}
	for i := range lines {
		if err := send(&lines[i], s.headers(&lines[i]), s.bodies[i]); err != nil {
			return err
		}
	}
	return nil
}

// headers returns the headers of a message; they are valid until the next call.
func (s *sealer) headers(l *outgoing) map[string][]string {
	h := s.header
	id := string(l.node) + "." + l.content.id
	h[wire.HeaderMsgID][0], h[wire.HeaderEdictID][0], h[wire.HeaderCEID][0] = id, id, id
	h[wire.HeaderEventID][0], h[wire.HeaderPrev][0] = l.content.id, l.prev.String()
	h[wire.HeaderType][0], h[wire.HeaderCEType][0] = l.event, l.event
	h[wire.HeaderLogSeq][0], h[wire.HeaderCETime][0] = l.seq, l.at
	if l.traceparent == "" {
		delete(h, wire.HeaderTraceparent)
	} else {
		h[wire.HeaderTraceparent] = []string{l.traceparent}
	}
	return h
}

// envelopeOverhead is more than a message has besides its payload: subject,
// headers, the fields of the envelope and a proof.
const envelopeOverhead = 2 << 10

// document seals a message about an artifact. The plane signs the message; the
// document in it has the signature of its own signer. A document that is too large
// for a message is left out, and the node pulls it.
func (s *sealer) document(by *artifact.Signer, l *outgoing) ([]byte, error) {
	p := artifactUpdated(l.node, &l.Item, l.gone)
	payload := appendArtifact(nil, p)
	if len(payload)+envelopeOverhead > s.maxPayload() {
		p.Document = nil
		payload = appendArtifact(nil, p)
	}
	body, err := by.Seal(artifact.Envelope{
		Plane: artifact.PlanePolicy, Kind: l.Kind, Name: l.Name, Version: l.Seq,
		Node: string(l.node), GeneratedAt: l.Time, Payload: payload,
	})
	if err != nil {
		return nil, fmt.Errorf("artifact %s.%s of node %s at %d: %w", l.Kind, l.Name, l.node, l.Seq, err)
	}
	return body, nil
}
