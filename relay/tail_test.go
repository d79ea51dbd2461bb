package relay

import (
	"iter"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/projector"
)

// edgeBox is an outbox of one partition.
type edgeBox struct {
	Outbox
	edges     []projector.StoredEdge
	from, seq uint64
	asked     int
}

func (b *edgeBox) Seq() uint64          { return b.seq }
func (b *edgeBox) EdgesFrom(int) uint64 { return b.from }
func (b *edgeBox) Edges(_ int, from uint64) iter.Seq2[projector.StoredEdge, error] {
	b.asked++
	return func(yield func(projector.StoredEdge, error) bool) {
		for _, e := range b.edges {
			if e.Seq >= from && !yield(e, nil) {
				return
			}
		}
	}
}

// The oracle walks down everything that the edges tell.
func TestWhatAFenceHasLeftOfItsSequenceIsWhatFollowsIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := func(name string) []policy.NodeID {
			drawn := rapid.SliceOfNDistinct(rapid.SampledFrom([]policy.NodeID{"a", "b", "c", "d"}), 0, 3, rapid.ID[policy.NodeID]).Draw(t, name)
			slices.Sort(drawn)
			return drawn
		}
		box := &edgeBox{seq: 8}
		var all []Key
		for i := range rapid.IntRange(0, 4).Draw(t, "edges") {
			e := projector.StoredEdge{Seq: 7 + uint64(i/3), Policy: uuid.UUID{byte(i)}, Have: set("have"), Lost: set("lost")}
			e.Lost = slices.DeleteFunc(e.Lost, func(n policy.NodeID) bool { return slices.Contains(e.Have, n) })
			box.edges = append(box.edges, e)
			for a := range expand(e) {
				all = append(all, a.key)
			}
		}
		var ts tails
		for _, at := range append(all, Key{7, "", ""}) {
			left := map[string]bool{}
			for _, k := range all {
				if k.Seq == at.Seq && k.Compare(at) > 0 {
					left[k.Policy] = true
				}
			}
			n, err := ts.left(box, PartitionStatus{After: at})
			require.NoError(t, err)
			require.Equal(t, len(left), n, "after %v", at)
		}
	})
}

func TestASequenceIsReadOnceForAllQuestionsAboutIt(t *testing.T) {
	box := &edgeBox{seq: 6, edges: []projector.StoredEdge{{Seq: 7, Have: []policy.NodeID{"a", "b"}}}}
	var ts tails
	at := PartitionStatus{After: Key{7, uuid.UUID{}.String(), "a"}}
	ask := func() int {
		n, err := ts.left(box, at)
		require.NoError(t, err)
		return n
	}
	require.Equal(t, 1, ask())
	box.seq = 7 // until now more of it may come
	require.Equal(t, 1, ask())
	require.Equal(t, 1, ask())
	require.Equal(t, 2, box.asked)
	box.from = 7
	require.Zero(t, ask(), "edges that were dropped are not waited for")
	at.After = Key{7, endOf, ""}
	require.Zero(t, ask())
}
