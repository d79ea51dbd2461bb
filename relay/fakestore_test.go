package relay

import (
	"context"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/compiler"
	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/projector"
	"github.com/google/uuid"
)

// The world of the tests: few nodes with one of three labels each, few
// policies whose selector is a set of labels, and two rule lists.
const (
	worldNodes    = 4
	worldPolicies = 3
	worldParts    = 2
	// Beside its policies a node has one row more: an artifact, of which there are
	// two documents.
	worldRows = worldPolicies + 1
)

var (
	nodeIDs   = []policy.NodeID{"n0", "n1", "n2", "n3"}
	policyIDs = func() (ids []uuid.UUID) {
		for i := range worldPolicies {
			ids = append(ids, uuid.UUID{0x10 + byte(i), 15: 1})
		}
		return ids
	}()
	rulesets = map[int]compiler.Ruleset{1: rulesetOf(443), 2: rulesetOf(5432)}

	artifactName = "vertex.flor"
	documents    = map[int][]byte{1: documentOf(1), 2: documentOf(2)}
	rowNames     = [worldRows]string{
		policyIDs[0].String(), policyIDs[1].String(), policyIDs[2].String(), artifactPrefix + artifactName,
	}
)

func documentOf(version uint64) []byte {
	doc, err := testSigner.SealDocument(artifact.Envelope{
		Plane: artifact.PlaneMgmt, Kind: "vertex", Name: "flor", Node: "n", Version: version, GeneratedAt: epoch, Payload: []byte(`{}`),
	})
	if err != nil {
		panic(err)
	}
	return doc
}

// says is what a stored message tells of a row.
func says(row int, body []byte) compiler.Fingerprint {
	if row < worldPolicies {
		fp, _ := fingerprintOf(body)
		return fp
	}
	fp, gone, _ := artifactIn(body)
	if gone {
		fp = compiler.Empty.Fingerprint
	}
	return fp
}

func rulesetOf(port uint16) compiler.Ruleset {
	return compiler.Compile([]policy.Rule{{
		Action: policy.Allow, Protocol: policy.TCP,
		Source: netip.MustParsePrefix("10.0.0.0/8"), Destination: netip.MustParsePrefix("10.1.0.0/16"),
		Ports: policy.Ports{From: port, To: port},
	}})
}

type eventKind int

const (
	revise eventKind = iota
	deletePolicy
	setLabel
	removeNode
	release
	withdraw
)

// event is one line of the test's log.
type event struct {
	kind   eventKind
	policy int
	node   int
	sel    int // bits of the labels the policy selects
	rules  int // 1 or 2
	label  int
	rev    uuid.UUID
}

type fakePolicy struct {
	live bool
	sel  int
	rule int
	rev  uuid.UUID
}

type fakeNode struct {
	in    bool
	label int
}

type facts struct {
	policies [worldPolicies]fakePolicy
	nodes    [worldNodes]fakeNode
	docs     [worldNodes]int     // 0: none
	used     [worldPolicies]bool // the id was deleted, and stays used
}

// row is the fingerprint of a row, the empty one when there is none.
func (f *facts) row(n, p int) compiler.Fingerprint {
	if p == worldPolicies {
		if f.nodes[n].in && f.docs[n] > 0 {
			return compiler.FingerprintOf(documents[f.docs[n]])
		}
		return compiler.Empty.Fingerprint
	}
	q := f.policies[p]
	if f.nodes[n].in && q.live && q.sel>>f.nodes[n].label&1 == 1 {
		return rulesets[q.rule].Fingerprint
	}
	return compiler.Empty.Fingerprint
}

func (f *facts) apply(e event) {
	switch e.kind {
	case revise:
		if !f.used[e.policy] {
			f.policies[e.policy] = fakePolicy{true, e.sel, e.rules, e.rev}
		}
	case deletePolicy:
		if f.policies[e.policy].live {
			f.policies[e.policy].live = false
			f.used[e.policy] = true
		}
	case setLabel:
		f.nodes[e.node] = fakeNode{true, e.label}
	case removeNode:
		f.nodes[e.node] = fakeNode{}
	case release:
		f.docs[e.node] = e.rules
	case withdraw:
		f.docs[e.node] = 0
	}
}

// fakeLog is the log all stores fold.
type fakeLog struct {
	mu     sync.Mutex
	events []event
	head   facts
}

func (l *fakeLog) append(e event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.rev = uuid.UUID{0: 0xaa, 14: byte(len(l.events) >> 8), 15: byte(len(l.events))}
	l.events = append(l.events, e)
	l.head.apply(e)
}

func (l *fakeLog) at(seq int) (event, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if seq > len(l.events) {
		return event{}, false
	}
	return l.events[seq-1], true
}

var epoch = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func timeOf(seq uint64) time.Time { return epoch.Add(time.Duration(seq) * time.Second) }

// fakeState is what a fakeStore would have on disk.
type fakeState struct {
	cursor int
	facts  facts
	edges  [worldParts][]projector.StoredEdge
	from   [worldParts]uint64
}

func (s fakeState) clone() fakeState {
	for p := range s.edges {
		s.edges[p] = slices.Clone(s.edges[p])
	}
	return s
}

// fakeStore is a read model that folds when it is told to.
type fakeStore struct {
	log *fakeLog

	mu      sync.Mutex
	state   fakeState
	opened  [worldParts]uint64 // highest edge since it was opened
	changed chan struct{}
	boxes   int // open outboxes
}

func newFakeStore(log *fakeLog) *fakeStore {
	return &fakeStore{log: log, changed: make(chan struct{})}
}

// fold applies one event.
func (s *fakeStore) fold() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	seq := s.state.cursor + 1
	e, ok := s.log.at(seq)
	if !ok {
		return false
	}
	before := s.state.facts
	s.state.facts.apply(e)
	s.state.cursor = seq
	for p := range worldRows {
		var edges [worldParts]projector.StoredEdge
		for n, id := range nodeIDs {
			was, is := before.row(n, p), s.state.facts.row(n, p)
			if was == is {
				continue
			}
			x := &edges[id.Partition(worldParts)]
			if is == compiler.Empty.Fingerprint {
				x.Lost = append(x.Lost, id)
			} else {
				x.Have = append(x.Have, id)
				x.Fingerprint = is
			}
		}
		for q, x := range edges {
			if len(x.Have)+len(x.Lost) > 0 {
				x.Seq, x.Time = uint64(seq), timeOf(uint64(seq))
				if p == worldPolicies {
					x.Artifact = artifactName
				} else {
					x.Policy, x.Revision = policyIDs[p], s.state.facts.policies[p].rev
				}
				s.state.edges[q] = append(s.state.edges[q], x)
				s.opened[q] = uint64(seq)
			}
		}
	}
	close(s.changed)
	s.changed = make(chan struct{})
	return true
}

func (s *fakeStore) foldAll() {
	for s.fold() {
	}
}

func (s *fakeStore) Applied() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return uint64(s.state.cursor)
}

func (s *fakeStore) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

func (s *fakeStore) Wait(ctx context.Context, seq uint64) error {
	for {
		changed := s.Changed()
		if s.Applied() >= seq {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

func (s *fakeStore) DropEdges(upTo map[int]uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, seq := range upTo {
		seq = min(seq, uint64(s.state.cursor))
		s.state.edges[p] = slices.DeleteFunc(slices.Clone(s.state.edges[p]), func(e projector.StoredEdge) bool { return e.Seq <= seq })
		s.state.from[p] = max(s.state.from[p], seq)
	}
	return nil
}

func (s *fakeStore) Edges() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []int{len(s.state.edges[0]), len(s.state.edges[1])}
}

func (s *fakeStore) EdgesAbove(seqs []uint64) []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]int, len(seqs))
	for p, seq := range seqs {
		for _, e := range s.state.edges[p] {
			if e.Seq > seq {
				out[p]++
			}
		}
	}
	return out
}

func (s *fakeStore) Outbox() Outbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.boxLocked()
}

func (s *fakeStore) boxLocked() *fakeBox {
	s.boxes++
	return &fakeBox{store: s, state: s.state.clone(), opened: s.opened}
}

func (s *fakeStore) SyncRows(partitions []int) (projector.SyncRows, Outbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows := projector.SyncRows{Seq: uint64(s.state.cursor), Time: timeOf(uint64(s.state.cursor)), Heads: map[uuid.UUID]uuid.UUID{}}
	for p, q := range s.state.facts.policies {
		if q.rev != uuid.Nil {
			rows.Heads[policyIDs[p]] = q.rev
		}
	}
	for n, id := range nodeIDs {
		if !s.state.facts.nodes[n].in || !slices.Contains(partitions, id.Partition(worldParts)) {
			continue
		}
		node := projector.SyncNode{ID: id}
		for p := range worldPolicies {
			if fp := s.state.facts.row(n, p); fp != compiler.Empty.Fingerprint {
				node.Rows = append(node.Rows, projector.Row{Policy: policyIDs[p], Revision: s.state.facts.policies[p].rev, Fingerprint: fp})
			}
		}
		if fp := s.state.facts.row(n, worldPolicies); fp != compiler.Empty.Fingerprint {
			node.Artifacts = []projector.SyncArtifact{{Name: artifactName, Fingerprint: fp}}
		}
		rows.Nodes = append(rows.Nodes, node)
	}
	return rows, s.boxLocked()
}

type fakeBox struct {
	store  *fakeStore
	state  fakeState
	opened [worldParts]uint64
	closed bool
}

func (b *fakeBox) Close() error {
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	if b.closed {
		panic("an outbox is closed twice")
	}
	b.closed = true
	b.store.boxes--
	return nil
}
func (b *fakeBox) Seq() uint64            { return uint64(b.state.cursor) }
func (b *fakeBox) Time() time.Time        { return timeOf(b.Seq()) }
func (b *fakeBox) EdgesFrom(p int) uint64 { return b.state.from[p] }
func (b *fakeBox) LastEdge(p int) uint64  { return b.opened[p] }
func (b *fakeBox) Edges(p int, from uint64) iter.Seq2[projector.StoredEdge, error] {
	return func(yield func(projector.StoredEdge, error) bool) {
		for _, e := range b.state.edges[p] {
			if e.Seq >= from && !yield(e, nil) {
				return
			}
		}
	}
}

func (b *fakeBox) Payload(fp compiler.Fingerprint) ([]byte, error) {
	if b.closed {
		return nil, fmt.Errorf("payload of a closed outbox")
	}
	for _, r := range rulesets {
		if r.Fingerprint == fp {
			return r.Payload, nil
		}
	}
	for _, doc := range documents {
		if compiler.FingerprintOf(doc) == fp {
			return doc, nil
		}
	}
	return nil, fmt.Errorf("no payload %s", fp)
}
