package snapshot

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// town is a read model of some projects, each with nodes of one label set and
// policies that match them all.
type town struct {
	t   testing.TB
	p   *projector.Projector
	seq uint64
}

func newTown(t testing.TB) *town {
	p, err := projector.Open("live", options.On(vfs.NewMem()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return &town{t: t, p: p}
}

func (w *town) fold(events ...policy.Event) {
	var msgs []streams.Message
	for _, e := range events {
		w.seq++
		msgs = append(msgs, streams.Message{Seq: w.seq, Subject: wire.Subject(e), Body: policy.Append(nil, e), Time: time.Unix(int64(w.seq), 0)})
	}
	require.NoError(w.t, w.p.Apply(msgs))
}

func (w *town) node(project byte, name, address string) {
	w.fold(policy.NodeUpdated{
		ID: uuid.New(), Project: uuid.UUID{project}, Node: policy.NodeID(name),
		Labels: policy.Labels{{Key: "role", Value: "web"}}, Addresses: policy.Addresses{netip.MustParseAddr(address)},
	})
}

// walls folds ordered policies of so many rules, each for a block of its own.
func (w *town) walls(project byte, policies, rules int) {
	web, _ := policy.ParseExpr("role=web")
	none, _ := policy.ParseExpr("role=none")
	for i := range policies {
		r := policy.Revision{
			ID: uuid.New(), Selector: policy.Selector{Source: web, Destination: none}, CreatedAt: time.Unix(1, 0), CreatedBy: "b",
			Order: policy.Order{Tier: policy.Admin},
		}
		for j := range rules {
			n := i*rules + j
			r.Rules = append(r.Rules, policy.Rule{
				Action: policy.Allow, Protocol: policy.TCP, Ports: policy.Ports{From: 1, To: 1},
				Source: netip.MustParsePrefix("10.0.0.0/8"), Destination: netip.PrefixFrom(netip.AddrFrom4([4]byte{172, byte(n >> 12), byte(n >> 4), byte(n << 4)}), 28),
			})
		}
		w.fold(policy.RevisionCreated{ID: uuid.New(), Project: uuid.UUID{project}, Policy: uuid.New(), Slug: fmt.Sprint("p", i), DisplayName: "p", Revision: r})
	}
}

// watchedModel is a model that says when facts are taken of it.
type watchedModel struct {
	Enforcer
	taken func(time int) // the number of the time, from 1

	mu    sync.Mutex
	times int
}

func (m *watchedModel) Enforcement(id policy.NodeID) (*projector.Enforcement, bool, error) {
	m.mu.Lock()
	m.times++
	n := m.times
	m.mu.Unlock()
	m.taken(n)
	return m.Enforcer.Enforcement(id)
}

// until waits for what other goroutines do.
func until(holds func() bool) {
	for !holds() {
		runtime.Gosched()
	}
}

func (t *Tables) locked(f func() bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return f()
}

// A request that gives up ends what it asked for: no step is made once it has
// returned, and nothing half done is left for who asks next.
func TestATableThatNobodyWaitsForIsMadeNoMore(t *testing.T) {
	w := newTown(t)
	w.node(1, "a", "10.0.0.1")
	w.walls(1, 4, 1000)
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	m := &watchedModel{Enforcer: w.p}
	tables := NewTables(m, TableOptions{Workers: 1})
	m.taken = func(n int) {
		if n == 2 { // once it looks whether there is one, once to make it
			cancel(gone)
			until(func() bool { return tables.locked(func() bool { return len(tables.flights) == 0 }) })
		}
	}
	_, _, err := tables.Of(ctx, "a")
	require.ErrorIs(t, err, gone)
	spent := tables.spent
	require.Less(t, spent, uint64(1<<20), "of 2,000,000 and more")
	require.Empty(t, tables.rooms.inside)
	require.Equal(t, 1, tables.turns.idle)
	require.Equal(t, map[string]uint64{TableCancelled: 1}, counted(tables))
	got, ok, err := tables.Of(t.Context(), "a")
	require.NoError(t, err)
	require.True(t, ok)
	fresh, _, err := NewTables(w.p, TableOptions{}).Of(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, fresh.Fingerprint, got.Fingerprint)
	require.Greater(t, tables.spent, spent+1<<21)
	_, _, err = tables.Of(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, map[string]uint64{TableCancelled: 1, TableComputed: 1}, counted(tables), "the last one was in memory")
	require.Equal(t, tables.spent, tables.Counts().Steps)
}

// counted is what became of tables, without what never happened.
func counted(t *Tables) map[string]uint64 {
	all := t.Counts().Outcomes
	maps.DeleteFunc(all, func(_ string, n uint64) bool { return n == 0 })
	return all
}

func TestRefusedTablesAreCountedAsSuch(t *testing.T) {
	w := newTown(t)
	w.node(1, "a", "10.0.0.1")
	tables := NewTables(w.p, TableOptions{Capacity: 50})
	w.walls(1, 1, 100)
	_, _, err := tables.Of(t.Context(), "a")
	require.ErrorAs(t, err, new(*TableError))
	w.node(2, "b", "10.0.0.1")
	_, _, err = tables.Of(t.Context(), "b")
	require.NoError(t, err)
	w.walls(2, 1, 10)
	_, _, err = tables.Of(t.Context(), "b")
	require.NoError(t, err)
	w.walls(2, 2, 100) // the first of them has a slug that is taken
	a, _, err := tables.Of(t.Context(), "b")
	require.NoError(t, err)
	require.NotNil(t, a.Refused, "it keeps the last good one")
	_, ok, err := tables.Of(t.Context(), "nobody")
	require.False(t, ok)
	require.NoError(t, err)
	require.Equal(t, map[string]uint64{TableComputed: 2, TableRefused: 2}, counted(tables))
}

// What was refused once is made no second time, neither by the search for a last good
// table, which meets the same lists at many moments, nor when it is asked again after
// nodes moved whom no rule is about.
func TestAListThatIsRefusedIsMadeOnce(t *testing.T) {
	w := newTown(t)
	limits := TableOptions{Capacity: 50}
	tables := NewTables(w.p, limits)
	w.node(1, "a", "10.0.0.1")
	w.walls(1, 1, 10)
	w.walls(1, 2, 100) // the first of them has a slug that is taken
	ask := func() (refused *Refusal, steps uint64) {
		before := tables.spent
		a, ok, err := tables.Of(t.Context(), "a")
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, said(t, NewTables(w.p, limits), "a"), said(t, tables, "a"))
		return a.Refused, tables.spent - before
	}
	first, took := ask()
	require.NotNil(t, first)
	for i := range 5 {
		w.node(1, "b", fmt.Sprintf("10.0.0.%d", 2+i)) // moments between which nothing of the list changed
	}
	again, less := ask()
	require.Equal(t, first.Err, again.Err)
	require.Less(t, less, took, "the list that is in force now is not made, though all its rules are read")
	w.node(1, "b", "172.0.0.1") // whom a rule is about: another table
	_, more := ask()
	require.Greater(t, more, less)
}

func TestThoseWhoAskAtOnceShareATableAndTooManyAreSentAway(t *testing.T) {
	w := newTown(t)
	w.node(1, "a", "10.0.0.1")
	w.walls(1, 1, 100)
	const most = 7
	tables := NewTables(w.p, TableOptions{Workers: 1, Waiting: most})
	hold, err := tables.turns.beside(t.Context())
	require.NoError(t, err)
	answers := make(chan Answer, most)
	for range most {
		go func() {
			a, _, err := tables.Of(t.Context(), "a")
			assertNil(t, err)
			answers <- a
		}()
	}
	until(func() bool { return tables.locked(func() bool { return tables.rooms.inside[uuid.UUID{1}] == most }) })
	_, err = tables.board("a", uuid.UUID{1}, 0)
	require.Equal(t, &BusyError{Waiting: most}, err)
	require.Equal(t, most, tables.Counts().Waiting)
	hold.end()
	first := <-answers
	for range most - 1 {
		require.Same(t, first.Table, (<-answers).Table)
	}
	alone := NewTables(w.p, TableOptions{})
	_, _, err = alone.Of(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, alone.spent, tables.spent, "one computation")
	require.Empty(t, tables.rooms.inside)
	require.Empty(t, tables.flights)
	require.Equal(t, map[string]uint64{TableComputed: 1, TableShared: most - 1, TableTooMany: 1}, counted(tables))
}

var memorySeeds = flag.Int("memory.seeds", 3, "histories in which tables in memory are held against tables made anew")

// What is in memory never shows: with room for nothing and with room for all, at
// every moment of a history in which tables are refused for their size and for
// their work, a node is answered the same.
func TestNoTableDependsOnWhichAreInMemory(t *testing.T) {
	gen.Unraced()
	for seed := range uint64(*memorySeeds) {
		w := newWatching(t, seed)
		msgs := drawnHistory(t, w.r, 40)
		nodes := nodesIn(msgs)
		size := (2*seed + seed/3) % 6 // the first three are far apart
		limits := TableOptions{Capacity: 4 + int(size), Steps: 1 << (10 + size)}
		narrow := limits
		narrow.CacheBytes = 1
		wide, small := NewTables(w.p, limits), NewTables(w.p, narrow)
		for i := range msgs {
			require.NoError(t, w.p.Apply(msgs[i:i+1]))
			if rand.IntN(3) > 0 {
				continue
			}
			for _, id := range nodes {
				want := said(t, NewTables(w.p, limits), id)
				require.Equal(t, want, said(t, wide, id), "seed %d at %d", seed, i+1)
				require.Equal(t, want, said(t, small, id), "seed %d at %d", seed, i+1)
				require.Equal(t, want, said(t, wide, id), "seed %d at %d, again", seed, i+1)
			}
		}
	}
}

func said(t *testing.T, tables *Tables, id policy.NodeID) string {
	a, ok, err := tables.Of(t.Context(), id)
	var none *TableError
	if errors.As(err, &none) {
		return err.Error()
	}
	require.NoError(t, err)
	if !ok {
		return "no such node"
	}
	out := fmt.Sprint(a.Fingerprint, a.Seq, a.Assumed)
	if a.Refused != nil {
		out += fmt.Sprint(a.Refused.AsOf, a.Refused.Err)
	}
	return out
}

// A project whose tables take more than a look may is told where they may have
// changed, and the look goes on to the next.
func TestALookSpendsLittleOnAProject(t *testing.T) {
	w := newTown(t)
	const large, small = 1, 2
	tables := NewTables(w.p, TableOptions{Steps: 100 * 512})
	watch := NewWatch(w.p, tables, slog.New(slog.DiscardHandler))
	for project, rules := range map[byte]int{large: 90, small: 3} {
		for i := range 5 {
			w.node(project, fmt.Sprintf("n%d-%d", project, i), fmt.Sprintf("10.0.%d.%d", project, i+1))
		}
		w.node(project, fmt.Sprintf("peer%d", project), "192.0.2.1")
		w.walls(project, 1, rules)
	}
	for _, project := range []byte{large, small} {
		for i := range 5 {
			watch.Follow(policy.NodeID(fmt.Sprintf("n%d-%d", project, i)), false, w.seq)
		}
	}
	_, all, asked, err := watch.Look(t.Context())
	require.NoError(t, err)
	require.Empty(t, append(all, asked...))
	before := tables.spent
	for project := range byte(2) {
		w.node(project+1, fmt.Sprintf("peer%d", project+1), "172.0.0.1") // into a block of the rules
	}
	_, all, asked, err = watch.Look(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 10)
	require.Empty(t, asked)
	require.LessOrEqual(t, tables.spent-before, uint64(2*tables.opt.Budget()/2))

	w.node(small, "peer2", "192.0.2.2") // out again, of which the large project knows nothing
	_, all, _, err = watch.Look(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 5)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	w.node(small, "peer2", "172.0.0.1")
	_, _, _, err = watch.Look(ended)
	require.ErrorIs(t, err, context.Canceled)
	_, all, _, err = watch.Look(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 5, "what a look that ended did not tell, the next one tells")
}
