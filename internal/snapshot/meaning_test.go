package snapshot_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/flow"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/policy"
)

var (
	meaningFlows = flag.Int("meaning.flows", 6000, "flows that four answers are compared about")
	meaningSeed  = flag.Uint64("meaning.seed", 1, "first seed of the worlds")
)

// One policy has one meaning: what a node does with a flow is the same by its table,
// by the walk that explains it, by the first rule of its state that matches, and by a
// judge that reads the texts. What plain rules cannot say is denied, and counted.
func TestOnePolicyHasOneMeaning(t *testing.T) {
	gen.Unraced()
	count, flows := map[string]int{}, 0
	for seed := *meaningSeed; flows < *meaningFlows; seed++ {
		flows += compareAnswers(t, seed, count)
	}
	t.Log(flows, "flows:", count)
	for _, by := range []string{"order", "tier", "pass", "default", "conflict", "omission"} {
		require.GreaterOrEqual(t, 100*count[by], flows, "flows decided by %s: %v of %d", by, count, flows)
	}
}

func compareAnswers(t *testing.T, seed uint64, count map[string]int) (flows int) {
	d := drawer{rand.New(rand.NewPCG(seed, 15))}
	p, err := projector.Open("live", projector.Options{Partitions: 4, Created: time.Unix(1, 0), First: 1}.On(vfs.NewMem()))
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	world, steps := d.world()
	scribe := gen.NewScribe("00000000-0000-4000-8000-000000000000", seed)
	for i, step := range steps {
		e := scribe.Write(step)
		require.NoError(t, p.Apply([]streams.Message{{Seq: uint64(i + 1), Subject: e.Subject, Body: e.Body, Time: time.Unix(int64(i+1), 0)}}))
	}
	for i := range world.Policies {
		world.Policies[i].ID, _, _ = scribe.Head(world.Policies[i].Slug)
	}
	tables := snapshot.NewTables(p, snapshot.TableOptions{})
	states := snapshot.NewBlocks(tables)
	for _, n := range world.Nodes {
		a, ok, err := tables.Of(t.Context(), policy.NodeID(n.ID))
		require.NoError(t, err)
		require.True(t, ok)
		audit, ok, err := tables.InAudit().Of(t.Context(), policy.NodeID(n.ID))
		require.NoError(t, err)
		require.True(t, ok)
		rules, omitted := rulesOf(t, p, states, n.ID)
		for _, f := range d.flows(n) {
			flows++
			count[compareFlow(t, seed, world, n.ID, f, a, rules, omitted)]++
			compareTable(t, seed, world.Enforced(), n.ID, f, audit)
		}
	}
	return flows
}

// compareFlow compares the answers about one flow, and says what decided it.
func compareFlow(t *testing.T, seed uint64, w flow.World, node string, f flow.Flow, a snapshot.Answer, rules []flow.Rule, omitted int) string {
	want, what := compareTable(t, seed, w, node, f, a)
	by, first := want.By, want.Verdict
	if want.Verdict == "redirect" || want.Verdict == "allow" && want.Auth {
		by, first = "omission", "deny"
		require.Positive(t, omitted, "%s, omitted %d: %s", marshal(rules), omitted, what())
	}
	if got := flow.First(rules, f); got != first {
		require.Equal(t, first, got, "state: %v, omitted %d: %s", rules, omitted, what())
	}
	return by
}

// compareTable compares what a table and its explanation say about a flow.
func compareTable(t *testing.T, seed uint64, w flow.World, node string, f flow.Flow, a snapshot.Answer) (want flow.Answer, what func() string) {
	want = w.Decide(node, f)
	what = func() string {
		return fmt.Sprintf("seed %d, node %s, %+v: %+v\n%s", seed, node, f, want, marshal(w))
	}
	direction := datapath.Ingress
	if f.Egress {
		direction = datapath.Egress
	}
	peer, known := a.Find(f.Peer.String())
	require.True(t, known)
	protocol, _ := datapath.ParseProtocol(f.Protocol)
	verdict := datapath.Deny
	if e, found := a.Lookup(direction, peer.ID, protocol, uint16(f.Port)); found {
		verdict = e.Verdict
	}
	if verdict.String() != want.Verdict {
		require.Equal(t, want.Verdict, verdict.String(), "table: %s", what())
	}
	steps, decided := a.Walk(direction, peer.ID, protocol, uint16(f.Port))
	walked := a.DefaultVerdict(direction)
	if decided {
		walked = steps[len(steps)-1].Rule.Verdict
	}
	if walked.String() != want.Verdict {
		require.Equal(t, want.Verdict, walked.String(), "explain: %s", what())
	}
	return want, what
}

func marshal(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// rulesOf are the rules that a node's state has.
func rulesOf(t *testing.T, p *projector.Projector, blocks *snapshot.Blocks, id string) (rules []flow.Rule, omitted int) {
	s, resolved, err := blocks.Of(t.Context(), policy.NodeID(id))
	require.NoError(t, err)
	if !resolved {
		p.Read(func(v *projector.View) {
			s, _, err = snapshot.NewComposer(snapshot.Options{}).State(v, policy.NodeID(id))
		})
		require.NoError(t, err)
	}
	var doc struct {
		Policy struct {
			Rules   []flow.Rule `json:"rules"`
			Omitted int         `json:"rules_omitted"`
		} `json:"policy"`
	}
	require.NoError(t, json.Unmarshal(s.Body, &doc))
	return doc.Policy.Rules, doc.Policy.Omitted
}

// drawer draws small worlds in which rules meet.
type drawer struct{ *rand.Rand }

func pick[T any](d drawer, of ...T) T { return of[d.IntN(len(of))] }

var (
	addresses4 = []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.1.0.1", "10.1.0.2", "192.0.2.1", "192.0.2.2"}
	addresses6 = []string{"fd00::1", "fd00::2", "fd00:1::1"}
	free       = []string{"10.0.0.9", "10.1.0.9", "198.51.100.7", "fd00::9", "2001:db8::7"}
)

func (d drawer) world() (w flow.World, steps []gen.Step) {
	four, six := slices.Clone(addresses4), slices.Clone(addresses6)
	d.Shuffle(len(four), func(i, j int) { four[i], four[j] = four[j], four[i] })
	several, both := d.IntN(2) == 0, d.IntN(3) == 0
	for i := range 2 + d.IntN(4) {
		n := gen.Node{ID: fmt.Sprint("n", i), Labels: map[string]string{}, Addresses: []string{}}
		for _, k := range []string{"a", "b", "c"} {
			if d.IntN(2) == 0 {
				n.Labels[k] = "1"
			}
		}
		take := func(from *[]string) {
			if len(*from) > 0 {
				n.Addresses, *from = append(n.Addresses, (*from)[0]), (*from)[1:]
			}
		}
		if take(&four); several && d.IntN(2) == 0 {
			take(&four)
		}
		if both && d.IntN(2) == 0 {
			take(&six)
		}
		w.Nodes = append(w.Nodes, n)
		steps = append(steps, gen.Step{Kind: gen.Register, Node: n})
	}
	kind := d.IntN(4) // 0: plain policies, ordered ones, or both
	for i := range 2 + d.IntN(4) {
		p := d.policy(fmt.Sprint("p", i), kind > 1 || kind == 1 && d.IntN(2) == 0, both)
		w.Policies = append(w.Policies, flow.Policy{Policy: p})
		steps = append(steps, gen.Step{Kind: gen.Create, Slug: p.Slug, Policy: p})
	}
	return w, steps
}

func (d drawer) policy(slug string, ordered, both bool) gen.Policy {
	sides := []string{"a=1", "b=1", "!c", "!nobody", "!nobody", "!nobody", "!nobody"}
	p := gen.Policy{Slug: slug, DisplayName: slug, Selector: gen.Selector{Source: pick(d, sides...), Destination: pick(d, sides...)}}
	if ordered {
		if p.Tier = pick(d, "admin", "normal", "baseline", ""); p.Tier == "" || d.IntN(2) == 0 {
			n := pick(d, 0, 10, 1000)
			p.Priority = &n
		}
		if d.IntN(4) == 0 {
			open := false
			p.DefaultDeny = &open
		}
	}
	if d.IntN(6) == 0 {
		p.Mode = "audit"
	}
	seen := map[string]bool{}
	for range 2 + d.IntN(7) {
		if r := d.rule(ordered, both); !seen[marshal(r)] {
			seen[marshal(r)] = true
			p.Rules = append(p.Rules, r)
		}
	}
	return p
}

func (d drawer) rule(ordered, both bool) gen.Rule {
	r := gen.Rule{Action: pick(d, "allow", "allow", "deny", "log"), Protocol: pick(d, "tcp", "udp", "any", "any", "icmp")}
	cidrs := []string{"0.0.0.0/0", "0.0.0.0/0", "10.0.0.0/8", "10.0.0.0/8", "10.0.0.0/16", "10.0.0.0/30", "10.0.0.1/32", "10.1.0.0/16", "192.0.2.0/24", "0.0.0.0/0"}
	if both && d.IntN(4) == 0 {
		cidrs = []string{"::/0", "fd00::/16", "fd00::/64", "fd00::1/128"}
	}
	r.SourceCIDR, r.DestinationCIDR = pick(d, cidrs...), pick(d, cidrs...)
	if ordered {
		r.Action = pick(d, "allow", "allow", "deny", "deny", "pass", "redirect", "log")
		if d.IntN(4) == 0 {
			r.SourceCIDR, r.SourceSelector = "", pick(d, "a=1", "b=1", "!c")
		}
		if d.IntN(4) == 0 {
			r.DestinationCIDR, r.DestinationSelector = "", pick(d, "a=1", "b=1", "!c")
		}
		if r.Action == "redirect" {
			r.Protocol, r.ProxyPort = "tcp", 15001
		}
		if d.IntN(3) == 0 {
			r.Direction = pick(d, "ingress", "egress")
		}
	}
	if r.Protocol == "tcp" || r.Protocol == "udp" {
		r.Ports = pick(d, &gen.Ports{From: 22, To: 22}, &gen.Ports{From: 80, To: 443}, &gen.Ports{From: 1, To: 65535}, &gen.Ports{From: 443, To: 8443})
	}
	return r
}

// flows are those of a node with every peer, each with some protocol and port.
func (d drawer) flows(n gen.Node) (out []flow.Flow) {
	for _, own := range n.Addresses {
		for _, peer := range slices.Concat(addresses4, addresses6, free) {
			if slices.Contains(n.Addresses, peer) || strings.Contains(own, ":") != strings.Contains(peer, ":") {
				continue
			}
			for _, egress := range []bool{true, false} {
				f := flow.Flow{Egress: egress, Own: netip.MustParseAddr(own), Peer: netip.MustParseAddr(peer), Protocol: pick(d, "tcp", "tcp", "udp", "icmp")}
				if f.Protocol != "icmp" {
					f.Port = pick(d, 22, 80, 443, 444, 9000, 1, 65535)
				}
				out = append(out, f)
			}
		}
	}
	return out
}
