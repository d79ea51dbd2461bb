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

// theme is what one message says, whichever node it is for: an item, or that it
// is gone, or the word to pull.
type theme struct {
	projector.Item
	gone  bool
	state string // the reason to pull; "": it is an item
	trace streams.Trace

	rules *artifact.PreparedRules // of what is sealed in runs

	// As it stands on every message.
	name, event, seq, at, id, traceparent string
}

// line is a theme told to one node.
type line struct {
	*theme
	node policy.NodeID
	prev policy.EventID // the id before it for the node
}

// envelopes turns lines into the signed messages of NATS. Safe for many
// goroutines.
type envelopes struct {
	keys *artifact.Keyring
	log  string
	most func() int // bytes of a message

	mu    sync.Mutex
	rules map[compiler.Fingerprint]*artifact.PreparedRules
	held  int // bytes in rules
}

// rulesHeld bounds the canonical rules kept for further nodes, in bytes. A
// fan-out meets few rule lists and many nodes.
const rulesHeld = 64 << 20

// words have a node pull, each for a reason.
var words = map[string]*artifact.PreparedRules{
	artifact.ReasonDatapath: artifact.PrepareState(artifact.ReasonDatapath),
	artifact.ReasonResync:   artifact.PrepareState(artifact.ReasonResync),
}

func newEnvelopes(keys *artifact.Keyring, log string, most func() int) *envelopes {
	return &envelopes{keys: keys, log: log, most: most, rules: map[compiler.Fingerprint]*artifact.PreparedRules{}}
}

// item is the theme of an item.
func (s *envelopes) item(i projector.Item, gone bool, trace streams.Trace) (*theme, error) {
	t := &theme{Item: i, gone: gone, trace: trace}
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

// word is the theme of the word to pull, as of a moment.
func (s *envelopes) word(reason string, base, seq uint64, at time.Time) *theme {
	t := &theme{Item: projector.Item{ID: policy.EndOf(base, seq), Seq: seq, Time: at}, state: reason, rules: words[reason]}
	t.name, t.event = wire.NameState, wire.TypeStateUpdated
	t.spell()
	return t
}

func (t *theme) spell() {
	t.id, t.seq = t.ID.String(), strconv.FormatUint(t.Seq, 10)
	t.at = t.Time.UTC().Format(time.RFC3339Nano)
	if !t.trace.IsZero() {
		t.traceparent = t.trace.String()
	}
}

// prepared finds the rules of a row; the form that is signed is made once for
// all nodes that have it.
func (s *envelopes) prepared(i projector.Item, gone bool) (*artifact.PreparedRules, error) {
	fp, payload := i.Fingerprint, i.Payload
	if gone {
		fp, payload = compiler.Empty.Fingerprint, compiler.Empty.Payload
	}
	s.mu.Lock()
	r := s.rules[fp]
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
	if s.held > rulesHeld {
		clear(s.rules)
		s.held = 0
	}
	s.rules[fp] = r
	s.held += r.Size()
	return r, nil
}

// sealing is one goroutine's room to seal in.
type sealing struct {
	*envelopes
	list   []artifact.Announcement
	at     []int // the lines of list
	bodies [][]byte
	buf    []byte
	header map[string][]string
}

func (s *envelopes) room() *sealing {
	h := map[string][]string{}
	for _, name := range []string{
		wire.HeaderMsgID, wire.HeaderEdictID, wire.HeaderEventID, wire.HeaderPrev, wire.HeaderType, wire.HeaderLog, wire.HeaderLogSeq,
		wire.HeaderCEID, wire.HeaderCEType, wire.HeaderCESource, wire.HeaderCESpecVersion, wire.HeaderCETime,
	} {
		h[name] = []string{""}
	}
	h[wire.HeaderLog][0], h[wire.HeaderCESource][0], h[wire.HeaderCESpecVersion][0] = s.log, wire.SourcePlane, wire.CESpecVersion
	return &sealing{envelopes: s, header: h}
}

// seal signs lines, in runs but for artifacts, and calls tell with each in
// their order, with headers and body that are good until it returns.
func (s *sealing) seal(lines []line, tell func(l *line, header map[string][]string, body []byte) error) error {
	s.list, s.at, s.bodies = s.list[:0], s.at[:0], s.bodies[:0]
	for i := range lines {
		l := &lines[i]
		if l.rules == nil {
			body, err := s.document(l)
			if err != nil {
				return err
			}
			s.bodies = append(s.bodies, body)
			continue
		}
		s.bodies = append(s.bodies, nil)
		s.at = append(s.at, i)
		a := artifact.Announcement{Node: l.node, Version: l.Seq, GeneratedAt: l.Time, Rules: l.rules}
		if l.state == "" {
			a.Policy, a.Revision = l.Policy, l.Revision
		}
		s.list = append(s.list, a)
	}
	var err error
	s.buf, err = s.keys.Current().SealRuns(s.buf[:0], s.list, func(i int, wire []byte) { s.bodies[s.at[i]] = wire })
	if err != nil {
		return err
	}
	for i := range lines {
		if err := tell(&lines[i], s.headers(&lines[i]), s.bodies[i]); err != nil {
			return err
		}
	}
	return nil
}

// headers are those of a line, until the next.
func (s *sealing) headers(l *line) map[string][]string {
	h := s.header
	id := string(l.node) + "." + l.theme.id
	h[wire.HeaderMsgID][0], h[wire.HeaderEdictID][0], h[wire.HeaderCEID][0] = id, id, id
	h[wire.HeaderEventID][0], h[wire.HeaderPrev][0] = l.theme.id, l.prev.String()
	h[wire.HeaderType][0], h[wire.HeaderCEType][0] = l.event, l.event
	h[wire.HeaderLogSeq][0], h[wire.HeaderCETime][0] = l.seq, l.at
	if l.traceparent == "" {
		delete(h, wire.HeaderTraceparent)
	} else {
		h[wire.HeaderTraceparent] = []string{l.traceparent}
	}
	return h
}

// envelopeRoom is more than a message has beside its payload: subject, headers,
// the fields of the envelope and a proof.
const envelopeRoom = 2 << 10

// document seals what is told of an artifact: the plane's word around the
// document, which its own signer vouches for. A document that no message has
// room for is left out: the node pulls it.
func (s *sealing) document(l *line) ([]byte, error) {
	p := artifactUpdated(l.node, &l.Item, l.gone)
	payload := appendArtifact(nil, p)
	if len(payload)+envelopeRoom > s.most() {
		p.Document = nil
		payload = appendArtifact(nil, p)
	}
	body, err := s.keys.Current().Seal(artifact.Envelope{
		Plane: artifact.PlanePolicy, Kind: l.Kind, Name: l.Name, Version: l.Seq,
		Node: string(l.node), GeneratedAt: l.Time, Payload: payload,
	})
	if err != nil {
		return nil, fmt.Errorf("artifact %s.%s of node %s at %d: %w", l.Kind, l.Name, l.node, l.Seq, err)
	}
	return body, nil
}
