package relay

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/streams"
)

// placedAt reads a mark as a hub would that finds it at a sequence.
func placedAt(t *testing.T, m tableMark, at uint64) placedMark {
	t.Helper()
	out := m.message(3, 0)
	require.Equal(t, "edict.mark.sync.table-3", out.Subject)
	p, err := readTableMark(streams.Message{Seq: at, Subject: out.Subject, Body: out.Body})
	require.NoError(t, err)
	return p
}

// A mark replaces the one before it in the stream, so that alone it answers for
// all of them.
func TestTheLastTableMarkAnswersForThoseBeforeIt(t *testing.T) {
	first := tableMark{Log: "1"}.next(0, 5, []policy.NodeID{"a"}) // at 100
	second := first.next(100, 7, []policy.NodeID{"b"})            // at 200
	third := placedAt(t, second.next(200, 9, []policy.NodeID{"c"}), 300)
	for _, c := range []struct {
		node    policy.NodeID
		n, upTo uint64
		want    bool
	}{
		{"a", 99, 300, true},
		{"a", 100, 300, false}, // it was told
		{"b", 100, 300, true},
		{"b", 100, 199, false}, // not told yet
		{"b", 200, 300, false},
		{"c", 299, 300, true},
		{"c", 299, 299, false},
		{"c", 300, 300, false},
		{"d", 0, 300, false},
	} {
		require.Equal(t, c.want, third.concerns(c.node, c.n, c.upTo), "%v", c)
	}
	require.Equal(t, uint64(200), third.Before)
	require.Equal(t, uint64(9), third.Seq)
}

// What a mark does not repeat any more concerns everybody who may have missed it.
func TestATableMarkIsBoundedAndErrsOnTheSideOfAWord(t *testing.T) {
	m := tableMark{Log: "1"}
	for i := range 2 * earlierMost {
		m = m.next(uint64(i), uint64(i+1), []policy.NodeID{policy.NodeID(fmt.Sprintf("n%d", i))})
	}
	require.LessOrEqual(t, len(m.Earlier), earlierMost)
	p := placedAt(t, m, 2*earlierMost)
	require.Positive(t, p.From)
	require.True(t, p.concerns("other", p.From-1, p.at), "it may have been named")
	require.False(t, p.concerns("other", p.From, p.at))

	many := make([]policy.NodeID, namedMost+1)
	for i := range many {
		many[i] = policy.NodeID(fmt.Sprintf("n%d", i))
	}
	all := m.next(10_000, 10_001, many)
	require.True(t, all.All)
	require.Empty(t, all.Nodes)
	require.True(t, placedAt(t, all, 10_001).concerns("other", 10_000, 10_001))
	after := placedAt(t, all.next(10_001, 10_002, nil), 10_002)
	require.True(t, after.concerns("other", 10_000, 10_002))
	require.False(t, after.concerns("other", 10_001, 10_002))
}

// A hub that lags finds the last mark alone, and tells whom the others named.
func TestAHubThatMissedAMarkTellsWhomItNamed(t *testing.T) {
	h := &hub{partitions: 1, subs: map[policy.NodeID][]*subscriber{}, tables: map[int]placedMark{}, passed: map[int]uint64{}, began: 50}
	heard := func(id policy.NodeID) *subscriber {
		s := newSubscriber(id)
		h.subs[id] = []*subscriber{s}
		return s
	}
	a, b, c := heard("a"), heard("b"), heard("c")
	first := tableMark{Log: "1"}.next(0, 5, []policy.NodeID{"a"}) // at 100, and gone before the hub came to it
	second := first.next(100, 7, []policy.NodeID{"b"}).message(0, 100)
	h.seeTable(0, streams.Message{Seq: 200, Subject: second.Subject, Body: second.Body})
	for _, s := range []*subscriber{a, b} {
		events, _ := s.drain()
		require.Len(t, events, 1, s.node)
		require.Equal(t, uint64(200), events[0].Seq)
		require.Equal(t, whyTable, events[0].why)
	}
	events, _ := c.drain()
	require.Empty(t, events)
	require.True(t, h.tableChanged("a", 99, 200))
	require.False(t, h.tableChanged("a", 100, 200))
}
