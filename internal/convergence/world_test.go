package convergence

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

var home = uuid.MustParse("00000000-0000-4000-8000-000000000000")

// world is a log, the real fold behind it, and a memory of everything that
// ever was: what each node had to hold at each sequence.
type world struct {
	t        testing.TB
	rnd      *rand.Rand
	fold     *projector.Projector
	msgs     []streams.Message
	roles    map[policy.NodeID]string
	facts    map[policy.NodeID]uint64
	came     map[policy.NodeID]uint64 // since when a node has been there
	heads    map[uuid.UUID]policy.Revision
	gone     map[uuid.UUID]bool
	rolling  map[uuid.UUID]*rolling
	rows     []map[policy.NodeID]map[uuid.UUID]string // by sequence: policy to payload
	ids      uint64
	reported map[string]int // outcomes of reports
	took     []time.Duration
}

func newWorld(t testing.TB, seed uint64) *world {
	fold, err := projector.Open(t.TempDir(), projector.Options{Partitions: 4, Created: at(1), First: 1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, fold.Close()) })
	return &world{
		t: t, rnd: rand.New(rand.NewPCG(seed, 1)), fold: fold,
		roles: map[policy.NodeID]string{}, facts: map[policy.NodeID]uint64{}, came: map[policy.NodeID]uint64{},
		heads: map[uuid.UUID]policy.Revision{}, gone: map[uuid.UUID]bool{}, rolling: map[uuid.UUID]*rolling{},
		rows: []map[policy.NodeID]map[uuid.UUID]string{{}}, reported: map[string]int{},
	}
}

// base of the world's log, and the model that says so.
const base = 5000

type model struct{ *projector.Projector }

func (model) Base() uint64 { return base }

func (w *world) Reported(outcome string)     { w.reported[outcome]++ }
func (w *world) Applied(after time.Duration) { w.took = append(w.took, after) }
func (w *world) head() uint64                { return uint64(len(w.msgs)) }
func (w *world) tracker() *Tracker {
	x := New(Options{Model: model{w.fold}, Events: w, Metrics: w})
	x.advance(0, 0)
	return x
}

func (w *world) State(context.Context) (streams.State, error) {
	return streams.State{First: 1, Last: w.head(), Messages: w.head()}, nil
}

func (w *world) Get(_ context.Context, seq uint64) (streams.Message, error) {
	return w.msgs[seq-1], nil
}

func (w *world) id() uuid.UUID {
	w.ids++
	id := uuid.MustParse("01900000-0000-7000-8000-000000000000")
	binary.BigEndian.PutUint32(id[12:], uint32(w.ids))
	return id
}

// publish folds an event and remembers what it made of the world.
func (w *world) publish(e policy.Event) uint64 {
	seq := w.head() + 1
	m := streams.Message{Seq: seq, Subject: wire.Subject(e), Body: policy.Append(nil, e), Time: at(seq)}
	w.msgs = append(w.msgs, m)
	require.NoError(w.t, w.fold.Apply([]streams.Message{m}))
	switch e := e.(type) {
	case policy.NodeUpdated:
		if w.roles[e.Node] == "" {
			w.came[e.Node] = seq
		}
		w.roles[e.Node], w.facts[e.Node] = e.Labels[0].Value, seq
	case policy.NodeRemoved:
		delete(w.roles, e.Node)
	case policy.RevisionCreated:
		w.heads[e.Policy] = e.Revision
	case policy.PolicyDeleted:
		w.gone[e.Policy] = true
	default:
		w.roll(e)
	}
	now := map[policy.NodeID]map[uuid.UUID]string{}
	for n, role := range w.roles {
		now[n] = map[uuid.UUID]string{}
		for id := range w.heads {
			if r := w.says(id, role); !w.gone[id] && r.Selector.Matches(label(role)) {
				now[n][id] = string(compiler.Compile(r.Rules).Payload)
			}
		}
	}
	w.rows = append(w.rows, now)
	return seq
}

func (w *world) put(n policy.NodeID, role string) uint64 {
	return w.publish(policy.NodeUpdated{ID: w.id(), Project: home, Node: n, Labels: label(role)})
}

func (w *world) revise(id uuid.UUID, roles string, port uint16) uint64 {
	slug, r := w.draft(id, roles, port)
	return w.publish(policy.RevisionCreated{ID: w.id(), Project: home, Policy: id, Slug: slug, Revision: r})
}

// draft is a revision upon the head of a policy.
func (w *world) draft(id uuid.UUID, roles string, port uint16) (slug string, r policy.Revision) {
	drafted, err := policy.DecodeDraft(fmt.Appendf(nil, `{"slug":"p-%d","selector":{"source":"role in (%s)","destination":"role=none"},
		"rules":[{"action":"allow","protocol":"tcp","source_cidr":"10.0.0.0/8","destination_cidr":"10.0.0.0/8","ports":{"from":%d,"to":%d}}]}`,
		id[15], roles, port, port))
	require.NoError(w.t, err)
	return drafted.Slug, policy.Revision{
		ID: w.id(), Parent: w.heads[id].ID, Selector: drafted.Selector, Rules: drafted.Rules, CreatedAt: at(1), CreatedBy: "ann",
	}
}

// merged is the fingerprint of what a node had to hold at a sequence.
func (w *world) merged(n policy.NodeID, seq uint64) compiler.Fingerprint {
	rows := w.rows[seq][n]
	if len(rows) == 0 {
		return compiler.FingerprintOf([]byte("[]"))
	}
	var all [][]byte
	for _, id := range slices.SortedFunc(maps.Keys(rows), func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) }) {
		all = append(all, []byte(rows[id]))
	}
	return compiler.FingerprintOf(all...)
}

func random[T any](w *world, list []T) T { return list[w.rnd.IntN(len(list))] }

// step does one thing by chance.
func (w *world) step(nodes []policy.NodeID, policies []uuid.UUID) {
	n, id := random(w, nodes), random(w, policies)
	switch x := w.rnd.IntN(10); {
	case x < 3:
		w.put(n, random(w, []string{"a", "b", "c"}))
	case x == 3 && w.roles[n] != "":
		w.publish(policy.NodeRemoved{ID: w.id(), Project: home, Node: n})
	case x == 4 && w.heads[id].ID != uuid.Nil && !w.gone[id] && w.rnd.IntN(4) == 0:
		w.publish(policy.PolicyDeleted{ID: w.id(), Project: home, Policy: id})
	case x > 4 && !w.gone[id] && w.heads[id].ID != uuid.Nil:
		w.moveRollout(id)
	case !w.gone[id] && !w.rolling[id].underWay():
		w.revise(id, random(w, []string{"a", "a,b", "b,c", "a,b,c", "d"}), uint16(1+w.rnd.IntN(2)))
	}
}

// said is what a node reported, and whether that was a lie when it said so.
type said struct {
	policy.Report
	lie bool
}

// report sends a node's report to a tracker. Every other one says how far it is
// with an event id, as agents do that know those.
func (w *world) report(x *Tracker, seq uint64, n policy.NodeID, r policy.Report, after time.Duration) {
	if seq%2 == 0 && r.Event == 0 {
		r.Event, r.Version = policy.NewEventID(base, r.Version, uint32(seq)), 0
	}
	m := streams.Message{Seq: seq, Subject: streams.ReportSubject(n), Body: policy.AppendReport(nil, r), Time: at(w.head()).Add(after)}
	require.NoError(w.t, x.take(w.t.Context(), []streams.Message{m}, 0))
}

// expect works out a rollout from the memory of everything.
func (w *world) expect(id uuid.UUID, reports map[policy.NodeID]said) (desired, applied, dropped int, lagging []policy.NodeID) {
	now := w.head()
	for n := range w.roles {
		had := func(seq uint64) string { return w.rows[seq][n][id] }
		last := w.facts[n]
		for seq := last + 1; seq <= now; seq++ {
			if had(seq) != had(seq-1) {
				last = seq
			}
		}
		has := had(now) != ""
		if !has && last == w.facts[n] {
			continue // never had it since it is what it is
		}
		r, ok := reports[n]
		done := ok && r.Outcome == policy.OutcomeApplied && (r.Fingerprint == w.merged(n, now) || r.Version >= last && !r.lie)
		switch {
		case has:
			desired++
			if done {
				applied++
			}
		case done:
			dropped++
		}
		if !done {
			lagging = append(lagging, n)
		}
	}
	return desired, applied, dropped, lagging
}

// Whatever happens and whoever says what, true or not: a rollout is what a
// judge with a perfect memory makes of it.
func TestARolloutIsWhatAPerfectMemoryMakesOfIt(t *testing.T) {
	nodes := []policy.NodeID{"n1", "n2", "n3", "n4", "n5"}
	for seed := range uint64(3) {
		w := newWorld(t, seed)
		policies := []uuid.UUID{w.id(), w.id(), w.id()}
		x := w.tracker()
		reports := map[policy.NodeID]said{}
		for i := range uint64(150) {
			if w.rnd.IntN(3) > 0 || len(w.roles) == 0 {
				w.step(nodes, policies)
			} else {
				n := random(w, nodes)
				r := said{Report: policy.Report{Version: w.facts[n] + uint64(w.rnd.IntN(int(w.head()-w.facts[n])+1))}}
				if _, there := w.roles[n]; !there || r.Version == 0 {
					continue
				}
				r.Fingerprint = w.merged(n, r.Version)
				if w.rnd.IntN(5) == 0 {
					r = said{policy.Report{Version: w.head(), Fingerprint: rules(fmt.Sprint("lie ", i))}, true}
				}
				if w.rnd.IntN(4) == 0 {
					r.Outcome, r.Reason = policy.Outcome(1+w.rnd.IntN(3)), fmt.Sprint("reason ", i)
				}
				w.report(x, i+1, n, r.Report, time.Second)
				reports[n] = r
			}
			maps.DeleteFunc(reports, func(n policy.NodeID, r said) bool { return w.roles[n] != "" && r.Version < w.came[n] })
			for _, id := range policies {
				if w.heads[id].ID == uuid.Nil {
					continue
				}
				w.compare(x, id, reports, fmt.Sprint("seed ", seed, ", step ", i))
			}
			w.compareFleet(x, reports)
		}
		require.Zero(t, w.reported[Malformed]+w.reported[Ahead]+w.reported[Unknown])
		require.NotZero(t, w.reported[Lags])
	}
}

func (w *world) compare(x *Tracker, id uuid.UUID, reports map[policy.NodeID]said, where string) {
	desired, applied, dropped, lagging := w.expect(id, reports)
	got, ok, err := x.Rollout(w.t.Context(), home, id, 100)
	require.NoError(w.t, err)
	require.True(w.t, ok)
	var late []policy.NodeID
	for _, l := range got.Lagging {
		late = append(late, l.Node)
		require.False(w.t, l.Since.IsZero())
	}
	slices.Sort(late)
	slices.Sort(lagging)
	require.Equal(w.t, []any{desired, applied, dropped, lagging}, []any{got.Desired, got.Applied, got.Dropped, late}, where)
	require.Equal(w.t, len(lagging), got.Behind)
	said, want := map[policy.NodeID]string{}, map[policy.NodeID]string{}
	for _, x := range got.Refusals {
		said[x.Node] = x.Outcome.String() + x.Reason
	}
	for _, n := range lagging {
		if r := reports[n]; r.Outcome != policy.OutcomeApplied {
			want[n] = r.Outcome.String() + r.Reason
		}
	}
	require.Equal(w.t, want, said, where)
}

func (w *world) compareFleet(x *Tracker, reports map[policy.NodeID]said) {
	applied, reported, not := 0, 0, map[policy.Outcome]int{}
	stand := map[policy.NodeID]State{}
	for n := range w.roles {
		r, ok := reports[n]
		stand[n] = StateLagging
		if ok {
			reported++
		}
		if !ok && len(w.rows[w.head()][n]) > 0 {
			stand[n] = StateSilent
		}
		if r.Outcome != policy.OutcomeApplied {
			not[r.Outcome]++
			if r.Outcome == policy.OutcomeRefused {
				stand[n] = StateRefused
			}
			continue
		}
		if ok && r.Fingerprint == w.merged(n, w.head()) || !ok && len(w.rows[w.head()][n]) == 0 {
			applied++
			stand[n] = StateApplied
		}
	}
	w.compareCensus(x, stand)
	got, err := x.Fleet(w.t.Context(), 3)
	require.NoError(w.t, err)
	require.Equal(w.t, []int{len(w.roles), applied, reported}, []int{got.Desired, got.Applied, got.Reported})
	require.Equal(w.t, not, got.NotApplied)
	count, err := x.NotApplied(w.t.Context())
	require.NoError(w.t, err)
	require.True(w.t, maps.Equal(not, count))
	require.Len(w.t, got.Lagging, min(3, len(w.roles)-applied))
}
