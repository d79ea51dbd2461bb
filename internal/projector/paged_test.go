package projector

import (
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/internal/streams"
)

// TestAPagedListIsAMap, and has a page for what is in it and for nothing else.
func TestAPagedListIsAMap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var l paged[uint32]
		want := map[uint32]uint32{}
		for range rapid.IntRange(0, 300).Draw(rt, "steps") {
			ordinal := rapid.Uint32Range(0, 4*pageSize).Draw(rt, "ordinal")
			v := rapid.Uint32Range(0, 3).Draw(rt, "value")
			if l.put(ordinal, v); v > 0 {
				want[ordinal] = v
			} else {
				delete(want, ordinal)
			}
			require.Equal(rt, v, l.at(ordinal))
		}
		full := map[uint32]bool{}
		var values []uint32
		for _, o := range slices.Sorted(maps.Keys(want)) {
			require.Equal(rt, want[o], l.at(o))
			full[o/pageSize], values = true, append(values, want[o])
		}
		require.Equal(rt, values, slices.Collect(l.all()))
		require.Zero(rt, l.at(5*pageSize))
		require.Equal(rt, len(full), onPages(&l))
	})
}

func onPages[T comparable](l *paged[T]) (n int) {
	for _, p := range l.pages {
		if p != nil {
			n++
		}
	}
	return n
}

// TestLabelSetsThatEndedTakeNoRoom: a label that takes a new value with each event makes a
// label set each time, and nothing of them stays, here or after a restart.
func TestLabelSetsThatEndedTakeNoRoom(t *testing.T) {
	d, j := newDisk(), &journal{}
	p := d.open(t)
	require.NoError(t, p.Apply([]streams.Message{j.add(update(t, 1, 1, "stays", "role", "web"))}))
	event := 1
	for round := range 8 {
		var msgs []streams.Message
		for range pageSize {
			event++
			msgs = append(msgs, j.add(update(t, event, 1, "n", "turn", strconv.Itoa(event))))
		}
		// What a selector that ends leaves behind is by label set, too.
		require.NoError(t, p.Apply(msgs))
		require.Equal(t, "applied", verdict(t, p, j.add(revise(t, 9000+2*round, 1, round+1, 9000+round, 0, "s", "turn", 80))))
		require.Equal(t, "applied", verdict(t, p, j.add(remove(9001+2*round, 1, round+1))))
	}
	for range 2 {
		require.EqualValues(t, 8*pageSize+1, p.state.nextIdent)
		require.LessOrEqual(t, onPages(&p.state.identities), 2)
		require.LessOrEqual(t, onPages(&p.state.alone), 2)
		require.LessOrEqual(t, onPages(&p.state.left), 2)
		require.NoError(t, p.Close())
		p = d.open(t)
	}
	require.NoError(t, p.Close())
}
