package snapshot

import (
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
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

var (
	watchSeeds = flag.Int("watch.seeds", 3, "histories that a watch of tables is held against")
	watchSeed  = flag.Uint64("watch.seed", 0, "the first of them; 0: one at random")
)

// reader listens for a node and reads its table whenever it is told something,
// and now and then unasked.
type reader struct {
	tables   bool // it enforces tables, and says so
	unfollow func()
	rows     []projector.HeadRef
	now      enforced // by the node
	holds    enforced // as it read last
	moved    bool     // it was another at some event since the last look
	ordered  bool     // so is a policy of the node
	was      bool     // at the last look there was the node, and its table was looked at
	gone     bool     // the node is
}

// enforced is what a node enforces.
type enforced struct {
	table    string // and the revisions that are in audit mode
	resolved string // of a node of an ordered policy: the addresses in its resolved block
}

// watching is a plane whose readers are looked after by a Watch alone.
type watching struct {
	t       *testing.T
	r       *rand.Rand
	p       *projector.Projector
	model   *forgetful
	tables  *Tables
	watch   *Watch
	readers map[policy.NodeID]*reader
}

// forgetful is a read model that now and then remembers no changes: it was folded
// faster than it was looked at.
type forgetful struct {
	Watched
	forgets bool
}

func (f *forgetful) ChangesAbove(above uint64) (list []projector.Change, seq uint64, whole bool) {
	list, seq, whole = f.Watched.ChangesAbove(above)
	if f.forgets {
		return nil, seq, false
	}
	return list, seq, whole
}

func newWatching(t *testing.T, seed uint64) *watching {
	p, err := projector.Open("live", options.On(vfs.NewMem()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	model := &forgetful{Watched: p}
	return &watching{
		t: t, r: rand.New(rand.NewPCG(seed, 1)), p: p, model: model, tables: NewTables(p, TableOptions{}),
		watch: NewWatch(model, NewTables(p, TableOptions{}), slog.New(slog.DiscardHandler)), readers: map[policy.NodeID]*reader{},
	}
}

// nodesIn are the nodes that a log names.
func nodesIn(msgs []streams.Message) (nodes []policy.NodeID) {
	for _, m := range msgs {
		if s, ok := wire.ParseSubject(m.Subject); ok && s.Family == "node" {
			nodes = append(nodes, policy.NodeID(s.ID))
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// step lets one event pass and says of each node what it did to it.
func (w *watching) step(nodes []policy.NodeID) {
	matters, err := extendedOf(w.p)
	require.NoError(w.t, err)
	for _, id := range nodes {
		e, ok, err := w.p.Enforcement(id)
		require.NoError(w.t, err)
		x := w.readers[id]
		if !ok {
			if x != nil {
				x.gone, x.rows, x.ordered = true, nil, false
			}
			continue
		}
		a, _, err := w.tables.Of(w.t.Context(), id)
		require.NoError(w.t, err)
		if x == nil {
			x = &reader{}
			w.readers[id] = x
		}
		now, ordered := enforced{table: a.Fingerprint.String()}, matched(matters[e.Node.Project], e.Matched)
		if ordered {
			now.resolved = fmt.Sprint(e.Node.Addresses)
		}
		for _, ref := range e.Matched { // of a policy in audit mode no row says that its rules are others
			r, err := e.Revision(ref)
			require.NoError(w.t, err)
			if r.Order.Audit {
				now.table += r.ID.String()
			}
		}
		w.meet(x, e, now, ordered)
		require.NoError(w.t, e.Close())
	}
}

func (w *watching) meet(x *reader, e *projector.Enforcement, now enforced, ordered bool) {
	told := !slices.EqualFunc(x.rows, e.Matched, func(a, b projector.HeadRef) bool {
		return a.Policy == b.Policy && a.Fingerprint == b.Fingerprint
	})
	x.moved = x.moved || now != x.now
	back := x.gone // a node that comes back has the rows that it is told
	x.rows, x.now, x.ordered, x.gone = e.Matched, now, ordered, false
	if x.unfollow != nil && (told || back || w.r.IntN(6) == 0) {
		x.holds = now
	}
	switch {
	case x.unfollow == nil && w.r.IntN(3) == 0: // it reads, and listens from then on
		x.tables, x.holds = w.r.IntN(2) == 0, now
		x.unfollow = w.watch.Follow(e.Node.ID, x.tables, e.Seq)
	case x.unfollow != nil && w.r.IntN(40) == 0:
		x.unfollow()
		x.unfollow = nil
	}
}

// part has nobody listen any more.
func (w *watching) part() {
	for _, x := range w.readers {
		if x.unfollow != nil {
			x.unfollow()
			x.unfollow = nil
		}
	}
}

// look looks and says who was told. sharp: a word without need is a fault.
func (w *watching) look(seq uint64, sharp bool) (told int) {
	at, all, asked, err := w.watch.Look(w.t.Context())
	require.NoError(w.t, err)
	require.Equal(w.t, seq, at)
	require.Equal(w.t, seq, w.watch.Seq())
	for _, id := range all {
		told += w.tell(id, true, sharp)
	}
	for _, id := range asked {
		require.NotContains(w.t, all, id)
		told += w.tell(id, false, sharp)
	}
	for id, x := range w.readers {
		if x.unfollow != nil && !x.gone && (x.tables || x.ordered) {
			holds := x.holds
			if !x.ordered { // it has no such block any more, and may know it from the rows alone
				holds.resolved = x.now.resolved
			}
			require.Equal(w.t, x.now, holds, "at %d: node %s holds another table than it has", seq, id)
		}
		x.moved, x.was = false, x.unfollow != nil && !x.gone && (x.tables || x.ordered)
	}
	return told
}

func (w *watching) tell(id policy.NodeID, all, sharp bool) int {
	x := w.readers[id]
	require.NotNil(w.t, x)
	if sharp {
		require.True(w.t, x.moved || !x.was, "at %d: node %s is told (all: %t), and its table stayed: %+v", w.watch.Seq(), id, all, x)
	}
	if x.unfollow != nil && (all || x.tables) {
		x.holds = x.now
		return 1
	}
	return 0
}

// After every look, each node that enforces an ordered policy or whose reader
// enforces tables holds its table, however many events a look meets, whenever
// nodes read, come and go, and whether the changes are remembered; and where a look
// meets one event whose change is, none is told whose table stayed as it was.
func TestEveryNodeHearsOfItsTableAndNoneWithoutNeed(t *testing.T) {
	gen.Unraced()
	base := *watchSeed
	if base == 0 {
		base = rand.Uint64()
	}
	looks, told := 0, 0
	for seed := base; seed < base+uint64(*watchSeeds); seed++ {
		t.Logf("seed %d", seed)
		w := newWatching(t, seed)
		msgs := drawnHistory(t, w.r, 60)
		nodes := nodesIn(msgs)
		gap, last := 1+w.r.IntN(4), 0
		for i := range msgs {
			require.NoError(t, w.p.Apply(msgs[i:i+1]))
			w.step(nodes)
			if w.r.IntN(gap) > 0 {
				continue
			}
			w.model.forgets = w.r.IntN(8) == 0
			if w.r.IntN(8) == 0 {
				w.part()
			}
			told += w.look(uint64(i+1), i+1-last == 1 && !w.model.forgets)
			last = i + 1
			looks++
		}
	}
	t.Logf("%d looks, %d words", looks, told)
	require.Positive(t, told)
}

// A node that came back late hears that it had an ordered policy meanwhile if a wave
// had reached its labels, though no policy is ordered now.
func TestWhoeverAWaveHadReachedHearsThatItIsOver(t *testing.T) {
	w := newTown(t)
	w.node(1, "a", "10.0.0.1")
	w.fold(policy.NodeUpdated{ID: uuid.New(), Project: uuid.UUID{1}, Node: "b", Labels: policy.Labels{{Key: "canary", Value: "true"}, {Key: "role", Value: "web"}}})
	web, _ := policy.ParseExpr("role=web")
	canary, _ := policy.ParseExpr("canary=true")
	rule := policy.Rule{Action: policy.Allow, Protocol: policy.Any, Source: netip.MustParsePrefix("10.0.0.0/8"), Destination: netip.MustParsePrefix("10.0.0.0/8")}
	head := policy.Revision{
		ID: uuid.New(), Selector: policy.Selector{Source: web, Destination: web}, Rules: []policy.Rule{rule}, CreatedAt: time.Unix(1, 0), CreatedBy: "b",
	}
	trial, id, home := head, uuid.New(), uuid.UUID{1}
	trial.ID, trial.Parent, trial.Order.Tier = uuid.New(), head.ID, policy.Admin
	promoted := policy.RevisionPromoted{ID: uuid.New(), Project: home, Policy: id, Revision: trial.ID}
	promoted.Waves, promoted.Gate = []policy.Expr{canary}, policy.DefaultGate
	w.fold(policy.RevisionCreated{ID: uuid.New(), Project: home, Policy: id, Slug: "p", Revision: head},
		policy.RevisionStaged{ID: uuid.New(), Project: home, Policy: id, Revision: trial}, promoted)
	at := w.seq
	w.fold(policy.RolloutAborted{ID: uuid.New(), Project: home, Policy: id, Revision: trial.ID})
	watch := NewWatch(w.p, NewTables(w.p, TableOptions{}), slog.New(slog.DiscardHandler))
	watch.Follow("a", false, at)
	watch.Follow("b", false, at)
	_, all, asked, err := watch.Look(t.Context())
	require.NoError(t, err)
	require.Equal(t, []policy.NodeID{"b"}, all)
	require.Empty(t, asked)
}

// A policy that becomes an ordered one may leave a table as it is, as here, where it is about
// addresses that nobody has. Its node has a resolved block from then on, also where somebody
// enforces its table.
func TestANodeHearsOfItsFirstResolvedBlockThoughItsTableStays(t *testing.T) {
	w := newTown(t)
	w.node(1, "a", "10.0.0.1")
	web, _ := policy.ParseExpr("role=web")
	home := uuid.UUID{1}
	created := func(slug, cidr string) policy.RevisionCreated {
		at := netip.MustParsePrefix(cidr)
		return policy.RevisionCreated{ID: uuid.New(), Project: home, Policy: uuid.New(), Slug: slug, Revision: policy.Revision{
			ID: uuid.New(), Selector: policy.Selector{Source: web, Destination: web}, CreatedAt: time.Unix(1, 0), CreatedBy: "b",
			Rules: []policy.Rule{{Action: policy.Allow, Protocol: policy.Any, Source: at, Destination: at}},
		}}
	}
	mine, nobodys := created("mine", "10.0.0.0/8"), created("nobodys", "172.16.0.0/12")
	w.fold(mine, nobodys)
	tables := NewTables(w.p, TableOptions{})
	watch := NewWatch(w.p, tables, slog.New(slog.DiscardHandler))
	watch.Follow("a", true, w.seq)
	_, all, asked, err := watch.Look(t.Context())
	require.NoError(t, err)
	require.Empty(t, append(all, asked...))
	before, _, err := tables.Of(t.Context(), "a")
	require.NoError(t, err)

	nobodys.ID, nobodys.Revision.Parent = uuid.New(), nobodys.Revision.ID
	nobodys.Revision.ID, nobodys.Revision.Order.Tier = uuid.New(), policy.Admin
	w.fold(nobodys)
	after, _, err := tables.Of(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, before.Fingerprint, after.Fingerprint)
	_, all, asked, err = watch.Look(t.Context())
	require.NoError(t, err)
	require.Equal(t, []policy.NodeID{"a"}, all)
	require.Empty(t, asked)
}
