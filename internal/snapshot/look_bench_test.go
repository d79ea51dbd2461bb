package snapshot

import (
	"fmt"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// BenchmarkLook looks at one change of a large project, of which a tenth of the
// nodes is followed: at one that no table shows, and at one that a tenth of the
// tables does.
func BenchmarkLook(b *testing.B) {
	const nodes, groups = 20_000, 10
	p, err := projector.Open("live", options.On(vfs.NewMem()))
	require.NoError(b, err)
	defer p.Close()
	seq := uint64(0)
	fold := func(events ...policy.Event) {
		var msgs []streams.Message
		for _, e := range events {
			seq++
			msgs = append(msgs, streams.Message{Seq: seq, Subject: wire.Subject(e), Body: policy.Append(nil, e), Time: time.Unix(int64(seq), 0)})
		}
		require.NoError(b, p.Apply(msgs))
	}
	node := func(i int, a netip.Addr) policy.Event {
		return policy.NodeUpdated{
			ID: uuid.New(), Project: uuid.MustParse(drawnProject), Node: policy.NodeID(fmt.Sprint("n", i)),
			Labels: policy.Labels{{Key: "group", Value: fmt.Sprint("g", i%groups)}}, Addresses: policy.Addresses{a},
		}
	}
	at := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(i % groups), byte(i >> 8), byte(i)}) }
	for g := range groups {
		own, _ := policy.ParseExpr(fmt.Sprintf("group=g%d", g))
		none, _ := policy.ParseExpr("group=none")
		fold(policy.RevisionCreated{
			ID: uuid.New(), Project: uuid.MustParse(drawnProject), Policy: uuid.New(), Slug: fmt.Sprint("p", g), DisplayName: "p",
			Revision: policy.Revision{
				ID: uuid.New(), Selector: policy.Selector{Source: own, Destination: none}, CreatedAt: time.Unix(1, 0), CreatedBy: "b",
				Rules: []policy.Rule{{
					Action: policy.Allow, Protocol: policy.TCP, Ports: policy.Ports{From: 1, To: 1},
					Source: netip.MustParsePrefix("10.0.0.0/8"), Destination: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(g), 0, 0}), 16),
				}},
			},
		})
	}
	var all []policy.Event
	for i := range nodes {
		all = append(all, node(i, at(i)))
	}
	fold(all...)
	w := NewWatch(p, NewTables(p, TableOptions{}), slog.New(slog.DiscardHandler))
	for i := range nodes / 10 {
		w.Follow(policy.NodeID(fmt.Sprint("n", i)), true, seq)
	}
	_, _, _, err = w.Look(b.Context())
	require.NoError(b, err)
	outside := node(nodes-1, netip.MustParseAddr("192.0.2.1"))
	fold(outside)
	_, _, _, err = w.Look(b.Context())
	require.NoError(b, err)
	look := func(b *testing.B, change func(turn int) policy.Event, told int) {
		for turn := 0; b.Loop(); turn++ {
			b.StopTimer()
			fold(change(turn))
			b.StartTimer()
			_, all, asked, err := w.Look(b.Context())
			require.NoError(b, err)
			require.Empty(b, all)
			require.Len(b, asked, told)
		}
	}
	b.Run("unseen", func(b *testing.B) {
		look(b, func(turn int) policy.Event {
			return node(nodes-1, netip.AddrFrom4([4]byte{192, 0, 2, byte(turn)}))
		}, 0)
	})
	b.Run("seen", func(b *testing.B) {
		look(b, func(turn int) policy.Event {
			return node(nodes-2, netip.AddrFrom4([4]byte{10, byte((nodes - 2) % groups), 255, byte(turn)}))
		}, nodes/10/groups)
	})
}
