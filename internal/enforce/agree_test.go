//go:build linux

package enforce_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"sigs.k8s.io/knftables"

	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/internal/enforce"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/test/netns"
)

var (
	policies    = flag.Int("enforce.policies", 60, "random sets of policies that real packets are held against")
	policySeed  = flag.Uint64("enforce.first", 1, "seed of the first; the next have the next ones")
	probesOfOne = flag.Int("enforce.probes", 40, "packets that each meets")
)

// world is a plane's facts, and what it says to the node.
type world struct {
	t      *testing.T
	p      *projector.Projector
	tables *snapshot.Tables
	scribe *gen.Scribe
	seq    uint64
	slugs  []string
}

const self = "here"

var groups = []string{"a", "b", "c"}

// newWorld has the node, and nodes that own some of the peers' addresses, and some
// of both peers; one has none.
func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	p, err := projector.Open("live", projector.Options{Partitions: 4, Created: time.Unix(1, 0), First: 1}.On(vfs.NewMem()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	w := &world{t: t, p: p, tables: snapshot.NewTables(p, snapshot.TableOptions{}), scribe: gen.NewScribe("00000000-0000-4000-8000-000000000000", seed)}
	for _, n := range []gen.Node{
		here(node4, node6),
		{ID: "n1", Labels: map[string]string{"a": "yes"}, Addresses: []string{"10.0.0.1", "fd00::1"}},
		{ID: "n2", Labels: map[string]string{"b": "yes"}, Addresses: []string{"10.1.0.1", "192.0.2.1"}},
		{ID: "n3", Labels: map[string]string{"a": "yes", "b": "yes"}, Addresses: []string{"10.1.1.1", "fd00::9"}},
		{ID: "n4", Labels: map[string]string{"c": "yes"}, Addresses: []string{"10.1.1.7", "fd00:1::2"}},
		{ID: "n5", Labels: map[string]string{}, Addresses: []string{"203.0.113.1", "fd00:1::1"}},
		{ID: "n6", Labels: map[string]string{"b": "yes", "c": "yes"}, Addresses: []string{}},
	} {
		w.take(gen.Step{Kind: gen.Register, Node: n})
	}
	return w
}

// open has every flow pass: a node without a policy denies everything.
func (w *world) open() {
	w.replace(gen.Policy{
		Slug: "open", DisplayName: "open", Selector: gen.Selector{Source: "!nobody", Destination: "!nobody"},
		Order: gen.Order{Tier: "baseline"}, Rules: []gen.Rule{{Action: "log", Protocol: "any", SourceCIDR: "0.0.0.0/0", DestinationCIDR: "0.0.0.0/0"}},
	})
}

// here is the node, with those of its addresses that the plane was told of.
func here(told ...netip.Addr) gen.Node {
	n := gen.Node{ID: self, Labels: map[string]string{"role": "self", "a": "yes"}}
	for _, a := range told {
		n.Addresses = append(n.Addresses, a.String())
	}
	return n
}

func (w *world) take(step gen.Step) {
	w.seq++
	e := w.scribe.Write(step)
	require.NoError(w.t, w.p.Apply([]streams.Message{{Seq: w.seq, Subject: e.Subject, Body: e.Body, Time: time.Unix(int64(w.seq), 0)}}))
}

// redraw draws other policies.
func (w *world) redraw(c func(int) int) {
	// To a node of one family, all addresses of it are any peer.
	told := pick(c, []netip.Addr{node4, node6}, []netip.Addr{node4}, []netip.Addr{node4}, []netip.Addr{node6})
	w.take(gen.Step{Kind: gen.Register, Node: here(told...)})
	var drawn []gen.Policy
	for i := range 1 + c(3) {
		p := gen.Policy{Slug: fmt.Sprint("p", i), DisplayName: "p"}
		p.Selector.Source = pick(c, "role=self", "role=self", "a", "b", "!c", "!nobody")
		p.Selector.Destination = pick(c, "role=self", "a", "b", "!c", "!nobody", "!nobody")
		if c(3) > 0 {
			p.Tier = pick(c, "admin", "normal", "baseline")
			n := c(3)
			p.Priority = &n
		}
		if c(4) == 0 {
			open := false
			p.DefaultDeny = &open
		}
		if c(4) == 0 {
			p.Mode = "audit"
		}
		for range 1 + c(8) {
			p.Rules = append(p.Rules, drawRule(c))
		}
		drawn = append(drawn, p)
	}
	w.replace(drawn...)
}

// replace puts policies in the place of those there are.
func (w *world) replace(policies ...gen.Policy) {
	for _, slug := range w.slugs {
		w.take(gen.Step{Kind: gen.Delete, Slug: slug})
	}
	w.slugs = nil
	for _, p := range policies {
		w.slugs = append(w.slugs, p.Slug)
		w.take(gen.Step{Kind: gen.Create, Slug: p.Slug, Policy: p})
	}
}

func pick[T any](c func(int) int, of ...T) T { return of[c(len(of))] }

var (
	blocks4 = strings.Fields("0.0.0.0/0 0.0.0.0/0 10.0.0.0/8 10.1.0.0/16 10.1.1.0/24 10.1.1.1/32 192.0.2.0/24 198.51.100.1/32 203.0.113.0/24")
	blocks6 = strings.Fields("::/0 fd00::/8 fd00:1::/32 fd00:1::9/128")
	ports   = []uint16{1, 2, 7, 8, 9, 15, 16, 17, 53, 80, 443, 1023, 1024, 19999, 65534, 65535}
)

func drawRule(c func(int) int) gen.Rule {
	r := gen.Rule{
		Protocol: pick(c, "any", "tcp", "tcp", "udp", "udp", "sctp", "icmp"),
		Action:   pick(c, "deny", "deny", "allow", "allow", "allow", "redirect", "redirect", "pass", "log"),
	}
	if r.Action == "redirect" && (r.Protocol == "any" || r.Protocol == "icmp") {
		r.Protocol = "tcp"
	}
	if r.Action == "redirect" {
		r.ProxyPort, r.ListenerPriority = 15000+c(2), pick(c, 0, 1, 126)
	}
	if r.Protocol != "any" && r.Protocol != "icmp" {
		from, to := int(pick(c, ports...)), int(pick(c, ports...))
		r.Ports = &gen.Ports{From: min(from, to), To: max(from, to)}
		if c(5) == 0 {
			r.Ports = &gen.Ports{From: 1, To: 65535}
		}
	}
	blocks, ours := blocks4, "203.0.113.0/24"
	if c(3) == 0 {
		blocks, ours = blocks6, "2001:db8::/32"
	}
	side := func() (cidr, selector string) {
		switch c(5) {
		case 0:
			return "", pick(c, groups...)
		case 1:
			return ours, ""
		}
		return pick(c, blocks...), ""
	}
	r.SourceCIDR, r.SourceSelector = side()
	r.DestinationCIDR, r.DestinationSelector = side()
	return r
}

// answer is the plane's table, and its bytes.
func (w *world) answer() (snapshot.Answer, []byte) { return w.answerIn(w.tables) }

func (w *world) answerIn(tables *snapshot.Tables) (snapshot.Answer, []byte) {
	a, ok, err := tables.Of(w.t.Context(), self)
	require.NoError(w.t, err)
	require.True(w.t, ok)
	body := fmt.Appendf(nil, `{"node_id":%q,"version":%d,"fingerprint":%q,%s}`, self, a.Seq, a.Fingerprint, a.Body)
	require.True(w.t, json.Valid(body))
	return a, body
}

// TestRealPacketsMeetWhatTheLookUpSays is the proof: policies through the fold,
// the table that the plane would serve, rendered and loaded by nft, and packets
// of two peers and of the node, of which each arrives exactly where the look-up
// says that its flow is allowed.
func TestRealPacketsMeetWhatTheLookUpSays(t *testing.T) {
	const most = 400 // policies of one namespace: its memory of flows has an end
	for done := 0; done < *policies; done += most {
		if !netns.Alone(t, fmt.Sprint("-enforce.policies=", min(most, *policies-done)), fmt.Sprint("-enforce.first=", *policySeed+uint64(done))) {
			continue
		}
		agree(t)
		return
	}
}

func agree(t *testing.T) {
	nft, err := enforce.OpenNft(enforce.TableName)
	require.NoError(t, err)
	kernel := &counting{Kernel: nft}
	n := enforce.NewNftables(kernel)
	w, wire := newWorld(t, *policySeed), newWire(t)
	w.open()
	_, text := w.answer()
	apply(t, n, text)
	wire.meet()
	count, audit := map[string]int{}, newAuditor(t)
	for seed := *policySeed; seed < *policySeed+uint64(*policies); seed++ {
		c := rand.New(rand.NewPCG(seed, 8)).IntN
		w.redraw(c)
		a, text := w.answer()
		apply(t, n, text)
		audit.begin(w)
		for i, got := range wire.shoot(c, *probesOfOne) {
			peer, known := a.Find(got.peer.String())
			require.True(t, known)
			want := outcome{verdict: "deny"}
			e, found := a.Lookup(got.direction(), peer.ID, datapath.Protocol(got.looked()), got.port)
			if found {
				want = outcome{e.Verdict.String(), e.ProxyPort}
			}
			if want != got.outcome {
				require.Equal(t, want, got.outcome, "seed %d, probe %d: %+v\n%s\n%s", seed, i, got, text, w.slugs)
			}
			if want.verdict != "deny" {
				audit.arrived(got)
			}
			count[want.verdict]++
			count[fmt.Sprint(got.looked())]++
			if found && e.Default() {
				count["default"]++
			}
			if own, _ := a.Lookup(got.direction(), datapath.AnyIdentity, datapath.Protocol(got.looked()), got.port); found && own != e {
				count["identity"]++
			} else if found && peer.ID != datapath.AnyIdentity {
				count["any"]++
			}
		}
		all, byRule := audit.end()
		count["audited"] += all
		count["audited rule"] += byRule
	}
	t.Log(count)
	for _, kind := range []string{"allow", "deny", "redirect", "default", "identity", "any", "audited", "1", "6", "17", "132", "47"} {
		require.GreaterOrEqual(t, 60*count[kind], count["allow"], "too few: %s", kind)
	}
	require.Greater(t, count["audited rule"], 2)
	require.Equal(t, 1, kernel.whole, "after the first, only what differs is changed")
	require.NoError(t, n.Remove(t.Context()))
	l, err := kernel.List(t.Context())
	require.NoError(t, err)
	require.Nil(t, l)
}

// counting counts the transactions that replace the whole table.
type counting struct {
	enforce.Kernel
	whole int
}

func (c *counting) Run(ctx context.Context, tx *knftables.Transaction) error {
	if strings.Contains(tx.String(), "delete table") {
		c.whole++
	}
	return c.Kernel.Run(ctx, tx)
}

func apply(t *testing.T, n *enforce.Nftables, text []byte) {
	t.Helper()
	table, err := enforce.Parse(self, text)
	require.NoError(t, err)
	r, err := enforce.Render(table)
	require.NoError(t, err)
	require.NoError(t, n.Apply(t.Context(), r), "%s", text)
}

// outcome is what became of a flow.
type outcome struct {
	verdict string
	proxy   uint16
}

// shot is a probe and what became of it.
type shot struct {
	probe
	egress bool
	peer   netip.Addr
	outcome
}

func (s shot) direction() datapath.Direction {
	if s.egress {
		return datapath.Egress
	}
	return datapath.Ingress
}

// looked is the protocol that is looked up: ICMP is one, whatever its version.
func (s shot) looked() uint8 {
	if s.protocol == protoICMPv6 {
		return protoICMP
	}
	return s.protocol
}

// shoot sends probes, and says what became of each.
func (w *wire) shoot(c func(int) int, n int) []shot {
	shots := make([]shot, n)
	for i := range shots {
		s := &shots[i]
		s.egress, s.peer = c(2) == 0, pick(c, append(left[:len(left):len(left)], right...)...)
		protocol := pick[uint8](c, protoTCP, protoTCP, protoUDP, protoUDP, protoSCTP, protoICMP, protoGRE)
		port := uint16(0)
		switch protocol {
		case protoICMP:
			if s.peer.Is6() {
				protocol = protoICMPv6
			}
		case protoGRE:
			s.egress = false // it has no ports, so the other way would be an answer
		default:
			port = pick(c, ports...)
		}
		s.probe = w.next(s.egress, s.peer, protocol, port)
		from := w.of[s.peer]
		if s.egress {
			from = w.node
		}
		w.fire(from, s.probe)
	}
	w.flush()
	for i := range shots {
		shots[i].outcome = w.outcome(&shots[i])
	}
	for _, e := range []*end{w.node, w.peers[0], w.peers[1]} {
		clear(e.got)
	}
	return shots
}

func (w *wire) outcome(s *shot) outcome {
	port, here := w.node.got[s.id]
	if !s.egress {
		if !here {
			return outcome{verdict: "deny"}
		}
		if port != s.port {
			return outcome{"redirect", port}
		}
		return outcome{verdict: "allow"}
	}
	_, there := w.of[s.peer].got[s.id]
	switch {
	case here && there:
		return outcome{verdict: "both"}
	case here:
		return outcome{"redirect", port}
	case there:
		return outcome{verdict: "allow"}
	}
	return outcome{verdict: "deny"}
}
