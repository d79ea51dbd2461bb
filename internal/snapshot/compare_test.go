package snapshot

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// asked is a flow that the oracle asks both worlds about.
type asked struct {
	node     policy.NodeID
	d        datapath.Direction
	peer     string
	protocol datapath.Protocol
	port     uint16
}

// toldVerdict is what a world says of a flow.
type toldVerdict struct {
	verdict   datapath.Verdict
	proxyPort uint16
	auth      datapath.Auth
}

func verdictBy(v datapath.Value) toldVerdict { return toldVerdict{v.Verdict, v.ProxyPort, v.Auth} }

// world is every verdict of a hamlet by the tables that are served now, of flows with
// all nodes, and with addresses in each gap between the CIDRs that policies name.
func (h *hamlet) world() map[asked]toldVerdict {
	all := map[asked]toldVerdict{}
	names := slices.Sorted(maps.Keys(h.nodes))
	for _, id := range names {
		a, ok, err := NewTables(h.p, TableOptions{}).Of(h.t.Context(), id)
		require.NoError(h.t, err)
		require.True(h.t, ok)
		peers := []string{}
		for _, n := range names {
			peers = append(peers, string(n))
		}
		for _, text := range []string{"10.0.0.1", "10.1.0.1", "10.1.1.1", "fd00::1", "10.0.0.7", "10.1.7.7", "10.9.9.9", "192.0.2.1", "2001:db8::1"} {
			at := netip.MustParseAddr(text)
			family := func(x netip.Addr) bool { return x.Is4() == at.Is4() }
			if len(a.Node.Addresses) == 0 || slices.ContainsFunc(a.Node.Addresses, family) {
				peers = append(peers, text)
			}
		}
		for _, peer := range peers {
			p, ok := a.Find(peer)
			require.True(h.t, ok)
			for _, d := range []datapath.Direction{datapath.Egress, datapath.Ingress} {
				for _, protocol := range []datapath.Protocol{datapath.TCP, datapath.UDP, datapath.SCTP, datapath.ICMP} {
					for _, port := range []uint16{0, 1, 78, 79, 80, 81, 82, 65535} {
						if (port == 0) == (protocol == datapath.ICMP) {
							x := toldVerdict{verdict: datapath.Deny}
							if e, ok := a.Lookup(d, p.ID, protocol, port); ok {
								x = verdictBy(e.Value)
							}
							all[asked{id, d, peer, protocol, port}] = x
						}
					}
				}
			}
		}
	}
	return all
}

// varied is a revision some of whose allows redirect, with other ports and CIDRs.
func (h *hamlet) varied(r policy.Revision) policy.Revision {
	for i := range r.Rules {
		if rapid.Bool().Draw(h.t, "other ports") {
			r.Rules[i].Ports = policy.Ports{From: 1, To: 80}
		}
		if r.Rules[i].Destination.IsValid() && rapid.Bool().Draw(h.t, "other CIDR") {
			r.Rules[i].Destination = netip.MustParsePrefix("10.0.0.0/16")
		}
		if r.Rules[i].Action == policy.Allow && rapid.Bool().Draw(h.t, "redirect") {
			r.Rules[i].Action, r.Rules[i].ProxyPort = policy.Redirect, rapid.Uint16Range(1, 2).Draw(h.t, "proxy_port")
		}
	}
	return r
}

func (h *hamlet) matching(id uuid.UUID) map[policy.NodeID]bool {
	all := map[policy.NodeID]bool{}
	for name := range h.nodes {
		e, _, err := h.p.Enforcement(name)
		require.NoError(h.t, err)
		all[name] = slices.ContainsFunc(e.Matched, func(ref projector.HeadRef) bool { return ref.Policy == id })
		require.NoError(h.t, e.Close())
	}
	return all
}

// head is what a policy says now, nothing where there is none.
func (h *hamlet) head(id uuid.UUID) (c policy.Content) {
	h.p.Read(func(v *projector.View) {
		p, ok, err := v.Policy(uuid.UUID{1}, id)
		require.NoError(h.t, err)
		if ok {
			c = p.Head.Content()
		}
	})
	return c
}

func (w *town) compared(tables *Tables, id uuid.UUID, before, after policy.Content) Comparison {
	var sels []policy.Selector
	for _, c := range []policy.Content{before, after} {
		if len(c.Rules) > 0 {
			sels = append(sels, c.Selector)
		}
	}
	touched := w.p.Touched(uuid.UUID{1}, sels...)
	defer touched.Close()
	done, err := tables.Compare(touched, id, after, goOn)
	require.NoError(w.t, err)
	return done
}

// What is compared is what the tables that are served say before and after the change
// really happens, of every flow.
func TestWhatACompareSaysComesTrue(t *testing.T) {
	var denied, allowed, altered, deleted, created uint64
	tried := func() bool { return denied > 0 && allowed > 0 && altered > 0 && deleted > 0 && created > 0 }
	check := func(rt *rapid.T) {
		h := &hamlet{town: newTown(t), t: rt, ids: map[int]uuid.UUID{}, heads: map[uuid.UUID]uuid.UUID{}, nodes: map[policy.NodeID]bool{}}
		for range rapid.IntRange(3, 20).Draw(rt, "events") {
			h.happen()
		}
		if first := 1; rapid.Bool().Draw(rt, "redirects") {
			h.publish(first, h.id(first), h.varied(h.revision()))
		}
		n := rapid.IntRange(1, 3).Draw(rt, "policy")
		_, lives := h.ids[n]
		id, r := h.id(n), h.varied(h.revision())
		content, gone := r.Content(), lives && rapid.IntRange(0, 3).Draw(rt, "delete") == 0
		if gone {
			content = policy.Content{}
			deleted++
		} else if !lives {
			created++
		}
		got := h.compared(NewTables(h.p, TableOptions{}), id, h.head(id), content)
		require.Equal(rt, got, h.compared(NewTables(h.p, TableOptions{}), id, h.head(id), content), "equal facts, equal answers")

		was, matched := h.world(), h.matching(id)
		if gone {
			h.end(n)
		} else {
			h.publish(n, id, r)
		}
		is := h.world()
		for name, yes := range h.matching(id) {
			matched[name] = matched[name] || yes
		}

		var want Comparison
		changed := map[policy.NodeID]bool{}
		kinds := map[string]bool{}
		for x := range is {
			if was[x] != is[x] {
				changed[x.node] = true
				kinds[kindOf(was[x], is[x])] = true
			}
		}
		for _, name := range slices.Sorted(maps.Keys(h.nodes)) {
			if matched[name] {
				want.Nodes.add(1, name)
			}
			if changed[name] {
				want.Changed.add(1, name)
			}
		}
		require.Equal(rt, want.Nodes, got.Nodes)
		require.Equal(rt, want.Changed, got.Changed)
		require.Zero(rt, got.Skipped)
		require.False(rt, got.Sampled)
		require.Equal(rt, kinds["denied"], got.Denied > 0)
		require.Equal(rt, kinds["allowed"], got.Allowed > 0)
		require.Equal(rt, kinds["altered"], got.Altered > 0)
		require.Equal(rt, len(changed) > 0, len(got.Examples) > 0)
		for _, x := range got.Examples {
			at := asked{x.Node, x.Direction, x.Peer, x.Protocol, x.Port}
			if _, inGrid := is[at]; inGrid {
				require.Equal(rt, was[at], verdictBy(x.Before), "before %v", x)
				require.Equal(rt, is[at], verdictBy(x.After), "after %v", x)
			}
			require.NotEqual(rt, verdictBy(x.Before), verdictBy(x.After))
		}
		denied, allowed, altered = denied+got.Denied, allowed+got.Allowed, altered+got.Altered
	}
	for rounds := 0; rounds < 10 && !tried(); rounds++ { // a round may happen to lack a kind
		rapid.Check(t, check)
	}
	for name, n := range map[string]uint64{"denied": denied, "allowed": allowed, "altered": altered, "deleted": deleted, "created": created} {
		require.Positive(t, n, name)
	}
	t.Logf("%d denied, %d allowed, %d altered, %d deletions, %d creations", denied, allowed, altered, deleted, created)
}

func kindOf(was, is toldVerdict) string {
	switch {
	case is.verdict == datapath.Deny:
		return "denied"
	case was.verdict == datapath.Deny:
		return "allowed"
	}
	return "altered"
}

func TestWhoIsNotComparedIsSaid(t *testing.T) {
	w := newTown(t)
	for i := range 3 {
		w.node(1, fmt.Sprint("n", i), netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}).String())
	}
	three := SomeNodes{Count: 3, First: []policy.NodeID{"n0", "n1", "n2"}}
	for name, opt := range map[string]TableOptions{
		"no steps for the lists":  {Steps: 512 * 11},
		"no steps for the tables": {Steps: 512 * 19},
		"too many entries":        {Capacity: 8},
	} {
		t.Run(name, func(t *testing.T) {
			done := w.compared(NewTables(w.p, opt), uuid.Nil, policy.Content{}, wallsOf(9))
			require.Equal(t, three, done.Nodes)
			require.Equal(t, three, done.Skipped)
			require.Zero(t, done.Flows)
			require.Zero(t, done.Changed)
		})
	}
}

func TestNodesThatAreNotFoundAreSaid(t *testing.T) {
	w := newTown(t)
	w.node(1, "a", "10.0.0.1")
	done := w.compared(NewTables(w.p, TableOptions{Steps: 512}), uuid.Nil, policy.Content{}, wallsOf(9))
	require.Equal(t, Comparison{Nodes: SomeNodes{More: true}, Changed: SomeNodes{More: true}, Skipped: SomeNodes{More: true}}, done)
}

// Nodes of one list are one, and so are the peers that both tables answer alike: what
// the flows are counted of does not grow with the project.
func TestFlowsAreOfKindsAndNotOfNodes(t *testing.T) {
	w := newTown(t)
	w.node(1, "a", "10.0.0.1")
	w.node(1, "b", "10.0.0.2")
	few := w.compared(NewTables(w.p, TableOptions{}), uuid.Nil, policy.Content{}, wallsOf(9))
	for i := range 40 {
		w.node(1, fmt.Sprint("n", i), netip.AddrFrom4([4]byte{10, 0, 1, byte(i)}).String())
	}
	many := w.compared(NewTables(w.p, TableOptions{}), uuid.Nil, policy.Content{}, wallsOf(9))
	require.Equal(t, 42, many.Changed.Count)
	require.Equal(t, few.Flows, many.Flows)
	require.Equal(t, few.Examples, many.Examples)
}

func TestManyFlowsAreSampled(t *testing.T) {
	w := newTown(t)
	w.node(1, "a", "10.0.0.1")
	c := wallsOf(200)
	for i := range c.Rules {
		p := uint16(2 + 3*i)
		c.Rules[i].Ports = policy.Ports{From: p, To: p}
	}
	done := w.compared(NewTables(w.p, TableOptions{}), uuid.Nil, policy.Content{}, c)
	require.True(t, done.Sampled)
	require.LessOrEqual(t, done.Flows, uint64(2*maxFlows))
	require.Equal(t, 1, done.Changed.Count)
	require.Len(t, done.Examples, maxExamples)
}
