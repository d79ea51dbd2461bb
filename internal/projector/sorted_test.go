package projector

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// What was gathered is written by key, and of a key the last write alone: as one map says that
// takes the writes one after the other.
func TestWritesAreSortedAndTheLastOfAKeyCounts(t *testing.T) {
	var s sorted // as a fold has it, for one batch after the other
	rapid.Check(t, func(t *rapid.T) {
		s.reset()
		// Keys of few bytes meet often; some begin with what another is, or with many bytes alike.
		kind, rest := rapid.SampledFrom([]string{"a", "p", "p\x00\x00\x00\x00\x00\x00\x00\x00\x00"}), rapid.StringOfN(rapid.SampledFrom([]rune{0, 'a', 'b'}), 0, 12, -1)
		wanted := map[string]string{}
		const removed = "removed"
		for range rapid.IntRange(0, 60).Draw(t, "writes") {
			key, value := kind.Draw(t, "kind")+rest.Draw(t, "rest"), rest.Draw(t, "value")
			if rapid.Bool().Draw(t, "remove") {
				require.NoError(t, s.Delete([]byte(key), nil))
				wanted[key] = removed
			} else {
				require.NoError(t, s.Set([]byte(key), []byte(value), nil))
				wanted[key] = "=" + value
			}
		}
		var keys []string
		got := map[string]string{}
		write := func(key []byte, what string) error {
			keys = append(keys, string(key))
			got[string(key)] = what
			return nil
		}
		require.NoError(t, s.into(
			func(key, value []byte) error { return write(key, "="+string(value)) },
			func(key []byte) error { return write(key, removed) }))
		require.Equal(t, wanted, got)
		require.Equal(t, slices.Sorted(maps.Keys(wanted)), keys)
	})
}

// What is gathered lies in several pieces of memory, and what fits in none has one of its own: of
// each batch all of it is there, whatever the batch before held.
func TestWritesOfAnySizeAreGathered(t *testing.T) {
	var s sorted
	for batch, sizes := range [][]int{{10, firstChunk, 20}, {chunkBytes - 2, 0, 5, chunkBytes + 7, 3}, {1, 2 * chunkBytes, chunkBytes, chunkBytes - 3}, {}, {40, 50}} {
		s.reset()
		wanted, total := map[string]string{}, 0
		for i, n := range sizes {
			key, value := fmt.Sprint("k", i), strings.Repeat(fmt.Sprint(batch+i), n)
			require.NoError(t, s.Set([]byte(key), []byte(value), nil))
			require.NoError(t, s.Delete([]byte("x"+key), nil))
			wanted[key], wanted["x"+key] = value, "removed"
			total += 2*len(key) + 1 + len(value)
		}
		require.Equal(t, total, s.size())
		got := map[string]string{}
		require.NoError(t, s.into(
			func(key, value []byte) error { got[string(key)] = string(value); return nil },
			func(key []byte) error { got[string(key)] = "removed"; return nil }))
		require.True(t, maps.Equal(wanted, got), "batch %d", batch)
	}
	for _, c := range s.chunks {
		require.LessOrEqual(t, cap(c), chunkBytes, "what a large write took is let go")
	}
}

// What a batch leaves for the next is no more than it took, also where writes become larger all the time.
func TestWritesThatGrowLeaveNoPiecesBehind(t *testing.T) {
	var s sorted
	for n := firstChunk; n < chunkBytes; n += firstChunk {
		s.reset()
		require.NoError(t, s.Set([]byte("k"), make([]byte, n), nil))
	}
	require.Equal(t, 1, len(s.chunks)) // Len would print them
}

// BenchmarkSorted sorts what a batch of a rebuild writes for revisions, and one of a busy log.
func BenchmarkSorted(b *testing.B) {
	for name, n := range map[string]int{"rebuild": 50_000, "following": 18} {
		b.Run(name, func(b *testing.B) {
			var s sorted
			r := rand.New(rand.NewPCG(1, 2))
			for range n {
				var id [32]byte
				for i := 0; i < len(id); i += 8 {
					binary.BigEndian.PutUint64(id[i:], r.Uint64())
				}
				clear(id[:8]) // as ids that were counted
				for _, kind := range []byte("vwpy") {
					_ = s.Set(append([]byte{kind}, id[:]...), bytes.Repeat([]byte{kind}, 300), nil)
				}
			}
			gathered := slices.Clone(s.writes)
			for b.Loop() {
				copy(s.writes, gathered)
				_ = s.into(func(_, _ []byte) error { return nil }, func([]byte) error { return nil })
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(s.writes)), "ns/write")
		})
	}
}
