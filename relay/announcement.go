package relay

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/compiler"
	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/streams"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
)

// announcement tells one node what one policy is to it from one log sequence
// on, or one of its artifacts. Its key is (version, policy, node).
type announcement struct {
	key         Key // its Policy is policy's text
	policy      uuid.UUID
	artifact    string // <kind>.<name>; "": it is about a policy
	revision    uuid.UUID
	fingerprint compiler.Fingerprint
	time        time.Time // log timestamp of key.Seq
	gone        bool      // the node has no row any more: rules are [], a document is ""
	trace       streams.Trace
}

func (a announcement) id() string {
	return string(a.key.Node) + "." + a.key.Policy + "." + strconv.FormatUint(a.key.Seq, 10)
}

// envelopeRoom is more than an announcement takes on the wire beside its rules:
// subject, headers, the fields of the envelope and a proof of six hashes.
const envelopeRoom = 1536

// room is what the line takes of a batch, in bytes.
func (l *line) room() int {
	if l.rules == nil {
		return len(l.payload) + envelopeRoom
	}
	return len(l.rules.Payload()) + envelopeRoom
}

// sealer turns announcements into signed messages. Safe for many goroutines.
type sealer struct {
	keys *artifact.Keyring
	log  string
	ttl  time.Duration // of tombstones
	most int           // bytes of a message

	mu    sync.Mutex
	rules map[compiler.Fingerprint]*artifact.PreparedRules
	held  int // bytes in rules
}

// rulesHeld bounds the canonical rules kept for further nodes, in bytes. A
// fan-out meets few rule lists and many nodes.
const rulesHeld = 64 << 20

func newSealer(keys *artifact.Keyring, log string, tombstones time.Duration, most int) *sealer {
	return &sealer{keys: keys, log: log, ttl: tombstones, most: most, rules: map[compiler.Fingerprint]*artifact.PreparedRules{}}
}

// line completes an announcement with what it tells.
func (s *sealer) line(a announcement, source Outbox) (line, error) {
	if a.artifact != "" {
		return s.artifactLine(a, source)
	}
	r, err := s.prepared(a, source)
	return line{announcement: a, rules: r}, err
}

// prepared finds the rules of an announcement; the form that is signed is made
// once per fingerprint.
func (s *sealer) prepared(a announcement, source Outbox) (*artifact.PreparedRules, error) {
	fp := a.fingerprint
	s.mu.Lock()
	r := s.rules[fp]
	s.mu.Unlock()
	if r != nil {
		return r, nil
	}
	payload := compiler.Empty.Payload
	if !a.gone {
		var err error
		if payload, err = source.Payload(fp); err != nil {
			return nil, fmt.Errorf("rules of policy %s at %d: %w", a.key.Policy, a.key.Seq, err)
		}
	}
	// Told is what the node contract can express of the row (design section 8).
	r, err := artifact.PrepareRules(policy.PlainPayload(payload))
	if got := compiler.FingerprintOf(payload); err == nil && got != fp {
		err = fmt.Errorf("the read model gives %s for it: rebuild it", got)
	}
	if err != nil {
		return nil, fmt.Errorf("rules of policy %s at %d, fingerprint %s: %w", a.key.Policy, a.key.Seq, fp, err)
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

// seal fills out[i] from lines[i]: signed in runs, which are cut from the first
// line on, on every core. Artifacts are signed each for itself.
func (s *sealer) seal(lines []line, out []streams.Outgoing) error {
	if !slices.ContainsFunc(lines, func(l line) bool { return l.rules == nil }) {
		return s.sealRules(lines, out)
	}
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	var rules []line
	var at []int
	for i := range lines {
		if lines[i].rules != nil {
			rules, at = append(rules, lines[i]), append(at, i)
			continue
		}
		g.Go(func() (err error) {
			out[i], err = s.sealArtifact(&lines[i])
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	sealed := make([]streams.Outgoing, len(rules))
	if err := s.sealRules(rules, sealed); err != nil {
		return err
	}
	for i, o := range sealed {
		out[at[i]] = o
	}
	return nil
}

func (s *sealer) sealRules(lines []line, out []streams.Outgoing) error {
	runs := (len(lines) + artifact.MaxRun - 1) / artifact.MaxRun
	cores := runtime.GOMAXPROCS(0)
	share := max(1, (runs+cores-1)/cores) * artifact.MaxRun
	var g errgroup.Group
	for from := 0; from < len(lines); from += share {
		to := min(from+share, len(lines))
		g.Go(func() error { return s.sealShare(lines[from:to], out[from:to]) })
	}
	return g.Wait()
}

func (s *sealer) sealShare(lines []line, out []streams.Outgoing) error {
	list := make([]artifact.Announcement, len(lines))
	for i, l := range lines {
		list[i] = artifact.Announcement{
			Node: l.key.Node, Policy: l.policy, Revision: l.revision,
			Version: l.key.Seq, GeneratedAt: l.time, Rules: l.rules,
		}
	}
	var seq string // most share it
	_, err := s.keys.Current().SealRuns(nil, list, func(i int, wire []byte) {
		l := &lines[i]
		if i == 0 || l.key.Seq != lines[i-1].key.Seq {
			seq = strconv.FormatUint(l.key.Seq, 10)
		}
		out[i] = s.outgoing(l, wire, seq)
	})
	return err
}

// outgoing is the message of a sealed announcement.
func (s *sealer) outgoing(l *line, wire []byte, seq string) streams.Outgoing {
	out := streams.Outgoing{
		Subject: streams.NodeSubject(l.key.Node, l.key.Policy),
		Header: []string{
			streams.HeaderEdictID, string(l.key.Node) + "." + l.key.Policy + "." + seq,
			streams.HeaderEdictLogSeq, seq,
			streams.HeaderEdictLog, s.log,
		},
		Body: wire,
	}
	if l.gone {
		out.TTL = s.ttl
	}
	if !l.trace.IsZero() {
		out.Header = append(out.Header, streams.HeaderTraceparent, l.trace.String())
	}
	return out
}
