package node

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// world is a node's subjects on an honest stream: the last message of each
// name is retained.
type world struct {
	head uint64
	all  []item
}

func (w *world) publish(name string, gap uint64) item {
	w.head += 1 + gap // other nodes' messages stand between
	i := item{seq: w.head, name: name}
	for _, before := range w.all {
		if before.name == name {
			i.prev = before.seq
		}
	}
	w.all = append(w.all, i)
	return i
}

// retained is the last message of each name in (after, upTo].
func (w *world) retained(after, upTo uint64) []item {
	last := map[string]item{}
	for _, i := range w.all {
		if i.seq > after && i.seq <= upTo {
			last[i.name] = item{seq: i.seq, name: i.name} // an answer tells no prev
		}
	}
	out := []item{}
	for _, i := range last {
		out = append(out, i)
	}
	slices.SortFunc(out, func(a, b item) int { return int(int64(a.seq) - int64(b.seq)) })
	return out
}

// ledger is who listens to the splice: it refuses what breaks a promise.
type ledger struct {
	last   uint64
	have   map[string]uint64
	pulled bool // a word to pull was said
}

func (l *ledger) take(t require.TestingT, out []item) {
	for _, i := range out {
		require.Greater(t, i.seq, l.last, "sequences rise")
		require.Greater(t, i.seq, l.have[i.name], "versions never fall")
		l.last, l.have[i.name] = i.seq, i.seq
	}
}

// Whatever is lost, doubled or late on the way, the splice hands out rising
// sequences, and after an answer at the head everything is there, or it said
// that the node must pull. Losses that were told of never make it say so.
func TestAnyMixOfLiveAndAnsweredIsSplicedInOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{head: 10}
		names := []string{"a", "b", "c"}
		for range rapid.IntRange(0, 3).Draw(rt, "before") {
			w.publish(rapid.SampledFrom(names).Draw(rt, "name"), 0)
		}
		after := rapid.Uint64Range(10, w.head).Draw(rt, "after")
		s := newSplice(after)
		l := &ledger{last: after, have: map[string]uint64{}}
		honest := rapid.Bool().Draw(rt, "losses are told")
		var flight []item // published and not yet come
		ask := false
		answer := func(upTo uint64) {
			upTo = max(upTo, s.confirmed)
			out, late, again := s.answer(w.retained(s.confirmed, upTo), upTo)
			ask = again
			if late {
				l.pulled = true
				require.False(rt, honest, "nothing is late when every loss is told")
			}
			l.take(rt, out)
		}
		steps := rapid.SliceOfN(rapid.SampledFrom([]string{"publish", "publish", "arrive", "arrive", "lose", "double", "answer", "answer", "cut", "swap"}), 30, 40).Draw(rt, "steps")
		for _, step := range steps {
			switch step {
			case "publish":
				flight = append(flight, w.publish(rapid.SampledFrom(names).Draw(rt, "name"), rapid.Uint64Range(0, 2).Draw(rt, "gap")))
			case "arrive", "double":
				if len(flight) == 0 {
					continue
				}
				out, hole := s.live(flight[0])
				l.take(rt, out)
				ask = ask || hole
				if step == "arrive" {
					flight = flight[1:]
				}
			case "lose":
				if len(flight) > 0 {
					flight = flight[1:]
					if honest { // told before the next one arrives, as a dropped connection is
						s.cut()
						ask = true
					}
				}
			case "swap":
				if !honest && len(flight) > 1 {
					flight[0], flight[1] = flight[1], flight[0]
				}
			case "cut":
				s.cut()
				ask = true
			case "answer": // a hub may lag behind what was live
				answer(rapid.Uint64Range(s.confirmed, w.head).Draw(rt, "up to"))
			}
		}
		answer(w.head)
		require.False(rt, ask, "an answer at the head leaves nothing open")
		if !l.pulled {
			for _, i := range w.retained(after, w.head) {
				require.Equal(rt, i.seq, l.have[i.name], "the last message of %s", i.name)
			}
		}
		// And then what comes is handed out as it comes, once the first was covered.
		for n := range 3 {
			i := w.publish("a", 0)
			out, hole := s.live(i)
			l.take(rt, out)
			if n == 0 && hole {
				answer(w.head)
			}
			require.Equal(rt, i.seq, l.have["a"])
		}
	})
}

func TestSplice(t *testing.T) {
	seqs := func(out []item) (n []uint64) {
		for _, i := range out {
			n = append(n, i.seq)
		}
		return n
	}
	live := func(s *splice, name string, seq, prev uint64) string {
		out, ask := s.live(item{seq: seq, prev: prev, name: name})
		return fmt.Sprint(seqs(out), ask)
	}
	answer := func(s *splice, upTo uint64, msgs ...item) string {
		out, late, ask := s.answer(msgs, upTo)
		return fmt.Sprint(seqs(out), late, ask)
	}
	a := func(seq uint64) item { return item{seq: seq, name: "a"} }
	b := func(seq uint64) item { return item{seq: seq, name: "b"} }

	t.Run("live waits for the answer that covers the first of it", func(t *testing.T) {
		s := newSplice(10)
		require.Equal(t, "[] true", live(s, "a", 14, 12))
		require.Equal(t, "[] true", live(s, "b", 15, 0))
		require.Equal(t, "[12] false true", answer(s, 13, a(12)), "a hub that lags")
		require.Equal(t, "[14 15] false false", answer(s, 14, a(14)))
		require.Equal(t, "[16] false", live(s, "a", 16, 14))
	})
	t.Run("a hole in a subject is only a hint", func(t *testing.T) {
		s := newSplice(10)
		s.whole = true
		require.Equal(t, "[11] false", live(s, "a", 11, 9))
		require.Equal(t, "[] true", live(s, "a", 13, 12))
		require.Equal(t, "[13] false false", answer(s, 13, a(13)))
	})
	t.Run("twice is once", func(t *testing.T) {
		s := newSplice(10)
		s.whole = true
		require.Equal(t, "[11] false", live(s, "a", 11, 9))
		require.Equal(t, "[] false", live(s, "a", 11, 9))
		require.Equal(t, "[] false false", answer(s, 11, a(11)))
		require.Equal(t, "[] false", live(s, "a", 9, 0))
	})
	t.Run("what was lost without a hint is late", func(t *testing.T) {
		s := newSplice(10)
		s.whole = true
		require.Equal(t, "[12] false", live(s, "b", 12, 0))
		require.Equal(t, "[] true false", answer(s, 12, a(11), b(12)))
	})
	t.Run("too many that wait are a cut", func(t *testing.T) {
		s := newSplice(10)
		for n := range uint64(mostWaiting + 2) {
			live(s, "a", 11+n, 10+n)
		}
		require.Len(t, s.waiting, 2)
		last := 11 + uint64(mostWaiting) + 1
		require.Equal(t, fmt.Sprintf("[%d %d] false false", last-1, last), answer(s, last-1, a(last-1)))
	})
	t.Run("another stream is another story", func(t *testing.T) {
		s := newSplice(10)
		s.whole = true
		live(s, "a", 12, 9)
		s.restart(5)
		require.Equal(t, "[6] false false", answer(s, 6, a(6)))
	})
}
