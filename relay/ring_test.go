package relay

import (
	"fmt"
	"slices"
	"testing"

	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/streams"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestARingAnswersAsTheWholeStreamWouldOrNotAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const first = 10
		limit := rapid.IntRange(-1, 12).Draw(t, "messages") * (ringedRoom + 10)
		r := newRing(limit, first)
		var stream []streams.Message // the honest one: everything, the newest of each subject
		marks := map[uint64]int{}
		at := uint64(first)
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			at += uint64(rapid.IntRange(1, 3).Draw(t, "gap"))
			if rapid.IntRange(0, 9).Draw(t, "what") == 0 {
				p := rapid.IntRange(0, 1).Draw(t, "partition")
				marks[at] = p
				r.mark(p, at)
			} else {
				node := rapid.IntRange(0, 3).Draw(t, "node")
				m := streams.Message{
					Seq: at, Subject: fmt.Sprintf("%d.%d", node, rapid.IntRange(0, 3).Draw(t, "policy")),
					Body: make([]byte, rapid.SampledFrom([]int{0, 10, 10, 10, 5000}).Draw(t, "size")),
				}
				stream = append(slices.DeleteFunc(stream, func(x streams.Message) bool { return x.Subject == m.Subject }), m)
				r.add(policy.NodeID(m.Subject[:1]), &news{Message: m})
			}
			require.LessOrEqual(t, r.bytes, max(limit, 0))
			node := rapid.IntRange(0, 3).Draw(t, "asked")
			n := uint64(rapid.IntRange(first-2, int(at)).Draw(t, "after"))
			owed, synced, covered := r.since(policy.NodeID(fmt.Sprint(node)), node%2, n, at)
			require.Equal(t, n >= r.floor, covered)
			if !covered {
				continue
			}
			var want, got []uint64
			for _, m := range stream {
				if m.Subject[:1] == fmt.Sprint(node) && m.Seq > n {
					want = append(want, m.Seq)
				}
			}
			for _, e := range owed {
				got = append(got, e.Seq)
			}
			require.Equal(t, want, got)
			pull := false
			for seq, p := range marks {
				pull = pull || p == node%2 && seq > n
			}
			require.Equal(t, pull, synced)
		}
		if n := len(stream); n > 0 && len(stream[n-1].Body)+ringedRoom <= limit {
			require.NotEmpty(t, r.last, "what fits is kept")
		}
	})
}

func TestARingForgetsTheOldestFirst(t *testing.T) {
	r := newRing(3*(ringedRoom+4), 0)
	for i := range uint64(5) {
		r.add("n", &news{Message: streams.Message{Seq: i + 1, Subject: fmt.Sprint("s", i), Body: []byte("body")}})
	}
	require.Equal(t, uint64(2), r.floor)
	owed, _, covered := r.since("n", 0, 2, 5)
	require.True(t, covered)
	require.Len(t, owed, 3)
	_, _, covered = r.since("n", 0, 1, 5)
	require.False(t, covered)
}
