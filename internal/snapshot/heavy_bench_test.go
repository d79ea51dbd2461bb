package snapshot

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/policy"
)

// BenchmarkHeavy asks for a table whose policies are as much work as they may be
// written, and whose last good one is to be looked for: by who knows nothing, and again
// after a node moved.
func BenchmarkHeavy(b *testing.B) {
	w := newHeavy(b)
	ask := func(t *Tables) {
		_, ok, err := t.Of(b.Context(), "n00")
		require.NoError(b, err)
		require.True(b, ok)
	}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			ask(NewTables(w.p, TableOptions{}))
		}
	})
	b.Run("again", func(b *testing.B) {
		t := NewTables(w.p, TableOptions{})
		for turn := 0; b.Loop(); turn++ {
			b.StopTimer()
			w.node(1, "n00", fmt.Sprintf("10.77.%d.%d", turn>>8&0xff, turn&0xff))
			b.StartTimer()
			ask(t)
		}
	})
}

// newHeavy is a town of ordered policies that match all of its nodes. Every other rule
// is for any peer, the others each for a block of its own.
func newHeavy(t testing.TB) *town {
	const nodes, policies, rules = 30, 52, 1024
	w := newTown(t)
	for i := range nodes {
		w.node(1, fmt.Sprintf("n%02d", i), fmt.Sprintf("10.77.255.%d", i))
	}
	web, _ := policy.ParseExpr("role=web")
	none, _ := policy.ParseExpr("role=none")
	all := netip.MustParsePrefix("0.0.0.0/0")
	for i := range policies {
		r := policy.Revision{
			ID: uuid.New(), Selector: policy.Selector{Source: web, Destination: none}, CreatedAt: time.Unix(1, 0), CreatedBy: "b",
			Order: policy.Order{Priority: policy.Priority{N: uint32(i), Set: true}},
		}
		for j := range rules {
			n := i*rules + j
			x := policy.Rule{Action: policy.Allow, Protocol: policy.TCP, Ports: policy.Ports{From: uint16(1 + n), To: uint16(5000 + n)}, Source: all, Destination: all}
			if j%2 == 0 {
				x.Destination = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n >> 14), byte(n >> 6), byte(n << 2)}), 30)
			}
			r.Rules = append(r.Rules, x)
		}
		w.fold(policy.RevisionCreated{ID: uuid.New(), Project: uuid.UUID{1}, Policy: uuid.New(), Slug: fmt.Sprint("p", i), DisplayName: "p", Revision: r})
	}
	return w
}
