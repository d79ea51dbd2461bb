package snapshot

import (
	"fmt"
	"log/slog"
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

// hamlet is a small project in which anything happens.
type hamlet struct {
	*town
	t     *rapid.T
	ids   map[int]uuid.UUID       // of policies that live
	heads map[uuid.UUID]uuid.UUID // and were
	nodes map[policy.NodeID]bool
}

func (h *hamlet) expr(name string, of ...string) policy.Expr {
	e, bad := policy.ParseExpr(rapid.SampledFrom(of).Draw(h.t, name))
	require.Empty(h.t, bad)
	return e
}

// happen draws one event, and now and then all that ends a project.
func (h *hamlet) happen() {
	switch rapid.IntRange(0, 19).Draw(h.t, "what") {
	default:
		h.register()
	case 10:
		h.remove(rapid.SampledFrom(append(slices.Sorted(maps.Keys(h.nodes)), "nobody")).Draw(h.t, "gone"))
	case 11, 12, 13, 14, 15:
		h.revise()
	case 16:
		h.end(rapid.IntRange(1, 3).Draw(h.t, "ends"))
	case 17:
		if rapid.IntRange(0, 5).Draw(h.t, "all") == 0 {
			for _, id := range slices.Sorted(maps.Keys(h.nodes)) {
				h.remove(id)
			}
			for n := range 4 {
				h.end(n)
			}
		}
	}
}

func (h *hamlet) register() {
	labels := map[string]string{}
	for _, key := range []string{"a", "b"} {
		if v := rapid.SampledFrom([]string{"", "1", "2"}).Draw(h.t, key); v != "" {
			labels[key] = v
		}
	}
	set, err := policy.NewLabels(labels, "")
	require.NoError(h.t, err)
	e := policy.NodeUpdated{
		ID: uuid.New(), Project: uuid.UUID{1}, Labels: set,
		Node: policy.NodeID(fmt.Sprint("n", rapid.IntRange(0, 6).Draw(h.t, "node"))),
	}
	for _, a := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"10.0.0.1", "10.1.0.1", "10.1.1.1", "fd00::1"}), 0, 2, rapid.ID).Draw(h.t, "addresses") {
		e.Addresses = append(e.Addresses, netip.MustParseAddr(a))
	}
	h.nodes[e.Node] = true
	h.fold(e)
}

func (h *hamlet) remove(id policy.NodeID) {
	delete(h.nodes, id)
	h.fold(policy.NodeRemoved{ID: uuid.New(), Project: uuid.UUID{1}, Node: id})
}

func (h *hamlet) end(n int) {
	if id, lives := h.ids[n]; lives {
		delete(h.ids, n)
		h.fold(policy.PolicyDeleted{ID: uuid.New(), Project: uuid.UUID{1}, Policy: id})
	}
}

func (h *hamlet) revise() {
	n := rapid.IntRange(1, 3).Draw(h.t, "policy")
	h.publish(n, h.id(n), h.revision())
}

// id is that of a policy, which lives from now on.
func (h *hamlet) id(n int) uuid.UUID {
	if _, lives := h.ids[n]; !lives {
		h.ids[n] = uuid.New()
	}
	return h.ids[n]
}

func (h *hamlet) publish(n int, id uuid.UUID, r policy.Revision) {
	r.Parent = h.heads[id]
	h.heads[id] = r.ID
	h.fold(policy.RevisionCreated{ID: uuid.New(), Project: uuid.UUID{1}, Policy: id, Slug: fmt.Sprint("p", n), DisplayName: "p", Revision: r})
}

func (h *hamlet) revision() policy.Revision {
	r := policy.Revision{
		ID: uuid.New(), CreatedAt: time.Unix(1, 0), CreatedBy: "b",
		Selector: policy.Selector{Source: h.expr("source side", "a", "a=1", "b", "!b"), Destination: h.expr("destination side", "a", "b in (1,2)", "b!=1")},
	}
	r.Order.Tier = rapid.SampledFrom([]policy.Tier{"", policy.Admin, policy.Baseline}).Draw(h.t, "tier")
	if rapid.Bool().Draw(h.t, "prioritised") {
		r.Order.Priority = policy.Priority{N: rapid.Uint32Range(0, 2).Draw(h.t, "priority"), Set: true}
	}
	prefixes := []string{"0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16", "10.0.0.1/32"}
	for range rapid.IntRange(1, 4).Draw(h.t, "rules") {
		rule := policy.Rule{
			Action: rapid.SampledFrom([]policy.Action{policy.Allow, policy.Deny}).Draw(h.t, "action"), Protocol: policy.TCP,
			Ports:       rapid.SampledFrom([]policy.Ports{{From: 80, To: 80}, {From: 1, To: 65535}, {From: 79, To: 81}}).Draw(h.t, "ports"),
			Source:      netip.MustParsePrefix(rapid.SampledFrom(prefixes).Draw(h.t, "source")),
			Destination: netip.MustParsePrefix(rapid.SampledFrom(prefixes).Draw(h.t, "destination")),
		}
		if s := rapid.SampledFrom([]string{"", "", "a=1", "b", "!a"}).Draw(h.t, "source_selector"); s != "" {
			rule.Source, rule.SourceSelector = netip.Prefix{}, s
		}
		if s := rapid.SampledFrom([]string{"", "", "a=1", "b", "!a"}).Draw(h.t, "destination_selector"); s != "" {
			rule.Destination, rule.DestinationSelector = netip.Prefix{}, s
		}
		if r.Order.Ordered() && rule.Action == policy.Deny && rapid.Bool().Draw(h.t, "pass") {
			rule.Action = policy.Pass
		}
		r.Rules = append(r.Rules, rule)
	}
	return r
}

// fromFacts makes a node's table of nothing but the facts of the moment.
func (h *hamlet) fromFacts(id policy.NodeID) (*datapath.Table, datapath.Population) {
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
	var nodes []policy.Node
	for n, err := range e.Nodes() {
		require.NoError(h.t, err)
		nodes = append(nodes, n.Node)
	}
	list := datapath.List(e.Node, heads)
	population, err := datapath.NewKinds(list.Rules).Sort(nodes, nil)
	require.NoError(h.t, err)
	table, err := datapath.Build(list.Rules, population.Identities, datapath.Options{Closed: list.Closed})
	require.NoError(h.t, err)
	return table, population
}

// At every moment each node's table is the one made of the facts from the start,
// whatever happened since somebody asked; its contents are equal where its bytes
// are; and it takes the steps that it takes from the start.
func TestATableBroughtUpToDateIsTheOneMadeFromTheFacts(t *testing.T) {
	gen.Unraced()
	followed, cut := 0, 0
	check := func(rt *rapid.T) {
		h := &hamlet{town: newTown(t), t: rt, ids: map[int]uuid.UUID{}, heads: map[uuid.UUID]uuid.UUID{}, nodes: map[policy.NodeID]bool{}}
		tables := NewTables(h.p, TableOptions{})
		watch := NewWatch(h.p, NewTables(h.p, TableOptions{}), slog.New(slog.DiscardHandler))
		known := map[policy.NodeID]bool{}
		bytesOf := map[contents]string{}
		sumsOf := map[string]contents{}
		for range rapid.IntRange(5, 40).Draw(rt, "moments") {
			for range rapid.IntRange(1, 3).Draw(rt, "events") {
				h.happen()
			}
			fresh := NewTables(h.p, TableOptions{})
			for id := range h.nodes {
				if !known[id] {
					watch.Follow(id, true, h.seq)
				}
				known[id] = true
			}
			_, _, _, err := watch.Look(t.Context())
			require.NoError(rt, err)
			if len(h.nodes) > 0 {
				cut += tables.cutShort(rt, h.p, slices.Sorted(maps.Keys(h.nodes))[0])
			}
			for id := range h.nodes {
				table, population := h.fromFacts(id)
				want, _, err := fresh.Of(t.Context(), id)
				require.NoError(rt, err)
				for _, tables := range []*Tables{tables, watch.tables} {
					got, _, err := tables.Of(t.Context(), id)
					require.NoError(rt, err)
					require.Equal(rt, string(table.AppendJSON(nil)), string(got.AppendJSON(nil)))
					require.Equal(rt, string(want.Body), string(got.Body))
					require.Equal(rt, want.Fingerprint, got.Fingerprint)
					require.Equal(rt, want.Unaddressed, got.Unaddressed)
				}
				s, steps := tables.standsOf(rt, h.p, id)
				require.Equal(rt, fmt.Sprint(population.Members), fmt.Sprint(s.population().Members))
				sum := s.sum
				first, from := fresh.standsOf(rt, h.p, id)
				require.Equal(rt, from, steps)
				require.Equal(rt, first.sum, sum)
				require.Equal(rt, sum, watch.projects[uuid.UUID{1}].nodes[id].sum, "as the watch has it")
				if body, known := bytesOf[sum]; known {
					require.Equal(rt, body, string(want.Body))
				}
				if other, known := sumsOf[string(want.Body)]; known {
					require.Equal(rt, other, sum)
				}
				bytesOf[sum], sumsOf[string(want.Body)] = string(want.Body), sum
			}
		}
		followed += upToDate(tables)
	}
	for rounds := 0; rounds < 20 && (followed == 0 || cut == 0); rounds++ { // a round may happen to lack one
		rapid.Check(t, check)
	}
	require.Positive(t, followed)
	require.Positive(t, cut)
}

// cutShort brings all lists up to date with too few steps for it, and counts those
// for which they were too few: they are as they were.
func (t *Tables) cutShort(rt *rapid.T, p *projector.Projector, id policy.NodeID) (n int) {
	e, ok, err := p.Enforcement(id)
	require.NoError(rt, err)
	require.True(rt, ok)
	defer e.Close()
	place := t.place(e)
	require.NoError(rt, t.nodes(place, e, rt.Context().Err))
	for _, at := range t.lists.at {
		f := at.Value.(*kept[inProject, *follower]).value
		was := f.now
		if _, ok := f.to(place.roster, datapath.NewWork(rapid.IntRange(0, 60).Draw(rt, "steps"), nil)); !ok {
			require.Same(rt, was, f.now)
			require.Equal(rt, was.sorting, f.census.Steps())
			n++
		}
	}
	return n
}

// standsOf is what a node's list comes to, and its steps.
func (t *Tables) standsOf(rt *rapid.T, p *projector.Projector, id policy.NodeID) (*listState, int) {
	e, ok, err := p.Enforcement(id)
	require.NoError(rt, err)
	require.True(rt, ok)
	defer e.Close()
	turn, err := t.turns.beside(rt.Context())
	require.NoError(rt, err)
	defer turn.end()
	s, steps, _, err := t.at(&job{turn, -1}, t.place(e), e, e.Matched, present)
	require.NoError(rt, err)
	return s, steps
}

// upToDate counts the lists that were brought up to date, of those in memory.
func upToDate(t *Tables) (n int) {
	for _, at := range t.lists.at {
		f := at.Value.(*kept[inProject, *follower]).value
		if f.times > 0 {
			n++
		}
	}
	return n
}
