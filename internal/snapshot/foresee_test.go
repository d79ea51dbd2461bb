package snapshot

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/policy"
)

func goOn() error { return nil }

func (w *town) foresee(tables *Tables, id uuid.UUID, c policy.Content) Foreseen {
	touched := w.p.Touched(uuid.UUID{1}, c.Selector)
	defer touched.Close()
	seen, err := tables.Foresee(touched, id, c, goOn)
	require.NoError(w.t, err)
	return seen
}

// closedFor are the directions in which a node denies what no rule decides.
func (h *hamlet) closedFor(id policy.NodeID) [2]bool {
	e, ok, err := h.p.Enforcement(id)
	require.NoError(h.t, err)
	require.True(h.t, ok)
	defer e.Close()
	var heads []datapath.Head
	for _, ref := range e.Matched {
		r, err := e.Revision(ref)
		require.NoError(h.t, err)
		heads = append(heads, datapath.Head{Policy: ref.Policy, Revision: r})
	}
	return closes(datapath.List(e.Node, heads))
}

// What is foreseen is compared with what became of every node once the revision was
// published.
func TestWhatIsForeseenComesTrue(t *testing.T) {
	gen.Unraced()
	const capacity = 6
	closed, opened, refused := 0, 0, 0
	check := func(rt *rapid.T) {
		h := &hamlet{town: newTown(t), t: rt, ids: map[int]uuid.UUID{}, heads: map[uuid.UUID]uuid.UUID{}, nodes: map[policy.NodeID]bool{}}
		tables := NewTables(h.p, TableOptions{Capacity: capacity})
		for range rapid.IntRange(3, 20).Draw(rt, "events") {
			h.happen()
		}
		n := rapid.IntRange(1, 3).Draw(rt, "policy")
		id, r := h.id(n), h.revision()
		seen := h.foresee(tables, id, r.Content())

		before := map[policy.NodeID][2]bool{}
		for name := range h.nodes {
			before[name] = h.closedFor(name)
		}
		h.publish(n, id, r)
		var want Foreseen
		for _, name := range slices.Sorted(maps.Keys(h.nodes)) {
			e, _, err := h.p.Enforcement(name)
			require.NoError(rt, err)
			matched := slices.ContainsFunc(e.Matched, func(ref projector.HeadRef) bool { return ref.Policy == id })
			require.NoError(rt, e.Close())
			for d, is := range h.closedFor(name) {
				switch was := before[name][d]; {
				case matched && is && !was:
					want.Closed[d].add(1, name)
				case matched && was && !is:
					want.Opened[d].add(1, name)
				}
			}
			a, _, err := NewTables(h.p, TableOptions{Capacity: capacity}).Of(t.Context(), name)
			if table := (*TableError)(nil); matched && (errors.As(err, &table) || err == nil && a.Refused != nil) {
				want.Refused.add(1, name)
			}
		}
		require.Equal(rt, want.Closed, seen.Closed)
		require.Equal(rt, want.Opened, seen.Opened)
		require.Equal(rt, want.Refused, seen.Refused)
		require.Equal(rt, seen.Refused.Count > 0, seen.Why != nil)
		closed += seen.Closed[0].Count + seen.Closed[1].Count
		opened += seen.Opened[0].Count + seen.Opened[1].Count
		refused += seen.Refused.Count
	}
	for rounds := 0; rounds < 20 && (closed == 0 || opened == 0 || refused == 0); rounds++ { // a round may happen to lack one
		rapid.Check(t, check)
	}
	require.Positive(t, closed)
	require.Positive(t, opened)
	require.Positive(t, refused)
	t.Logf("%d directions closed, %d tables refused", closed, refused)
}

// wallsOf are as many rules, each for a block of its own.
func wallsOf(rules int) policy.Content {
	web, _ := policy.ParseExpr("role=web")
	none, _ := policy.ParseExpr("role=none")
	c := policy.Content{Selector: policy.Selector{Source: web, Destination: none}, Order: policy.Order{Tier: policy.Normal}}
	for n := range rules {
		c.Rules = append(c.Rules, policy.Rule{
			Action: policy.Allow, Protocol: policy.TCP, Ports: policy.Ports{From: 1, To: 1},
			Source: netip.MustParsePrefix("10.0.0.0/8"), Destination: netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 16, byte(n >> 4), byte(n << 4)}), 28),
		})
	}
	return c
}

// leaveOpen gives all nodes a policy that decides nothing and closes nothing.
func (w *town) leaveOpen() {
	r := policy.Revision{ID: uuid.New(), Selector: wallsOf(0).Selector, Order: policy.Order{NoDefaultDeny: true}, Rules: wallsOf(1).Rules, CreatedAt: time.Unix(1, 0), CreatedBy: "b"}
	r.Rules[0].Action = policy.Log
	w.fold(policy.RevisionCreated{ID: uuid.New(), Project: uuid.UUID{1}, Policy: uuid.New(), Slug: "open", DisplayName: "open", Revision: r})
}

func TestNodesOfOneListAreOneTable(t *testing.T) {
	w := newTown(t)
	w.leaveOpen()
	for i := range 40 {
		w.node(1, string([]byte{'n', byte('a' + i/10), byte('0' + i%10)}), netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}).String())
	}
	tables := NewTables(w.p, TableOptions{Capacity: 8})
	seen := w.foresee(tables, uuid.Nil, wallsOf(9))
	require.Equal(t, SomeNodes{Count: 40, First: []policy.NodeID{"na0", "na1", "na2"}}, seen.Closed[0])
	require.Zero(t, seen.Closed[1])
	require.Zero(t, seen.Opened)
	require.Equal(t, SomeNodes{Count: 40, First: []policy.NodeID{"na0", "na1", "na2"}}, seen.Refused)
	require.ErrorContains(t, seen.Why, "10 entries (9 egress, 1 ingress)")
	once := tables.spent

	w.node(1, "zz", "192.0.2.1") // no rule is about it
	seen = w.foresee(tables, uuid.Nil, wallsOf(9))
	require.Equal(t, 40, seen.Refused.Count)
	require.Less(t, tables.spent-once, 2*once, "the others are made once")
}

func TestWhoIsNotLookedAtIsSaid(t *testing.T) {
	w := newTown(t)
	for i := range 3 {
		w.node(1, string([]byte{'n', byte('0' + i)}), netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}).String())
	}
	seen := w.foresee(NewTables(w.p, TableOptions{Steps: 512}), uuid.Nil, wallsOf(9))
	require.True(t, seen.Closed[0].More)
	require.True(t, seen.Refused.More)
	require.Zero(t, seen.Refused.Count)
}

func TestNothingIsKeptOfAProjectThatNobodyUsed(t *testing.T) {
	w := newTown(t)
	tables := NewTables(w.p, TableOptions{})
	require.Zero(t, w.foresee(tables, uuid.Nil, wallsOf(9)))
	require.Empty(t, tables.projects)
}
