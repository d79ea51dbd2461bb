package node

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/policy"
)

// told is what one id says: what a policy is to the node from then on.
type told struct {
	item
	content int
	silent  bool // told on resume alone: new labels gave a row that the node has a new id
}

// history is the honest fool: everything that was ever told of a node, and what
// each policy says after it.
type history struct {
	head policy.EventID
	last policy.EventID // that was published
	all  []told
}

func (h *history) tell(name string, gap policy.EventID, content int, silent bool) told {
	h.head += 1 + gap
	x := told{item{id: h.head, prev: h.last, name: name}, content, silent}
	if !silent {
		h.last = h.head
	}
	h.all = append(h.all, x)
	return x
}

// state is what every policy says at a moment, under the id of the last word
// about it.
func (h *history) state(at policy.EventID) map[string]told {
	now := map[string]told{}
	for _, x := range h.all {
		if x.id <= at {
			now[x.name] = x
		}
	}
	return now
}

// above is an answer: what is so at a moment and stands above an id, rising.
func (h *history) above(after, at policy.EventID) (out []item) {
	for _, x := range h.state(at) {
		if x.id > after {
			out = append(out, item{id: x.id, name: x.name}) // an answer tells no id before
		}
	}
	slices.SortFunc(out, byID)
	return out
}

func (h *history) content(id policy.EventID) int {
	for _, x := range h.all {
		if x.id == id {
			return x.content
		}
	}
	return -1
}

// publisher tells the history from a mark on, at its own pace.
type publisher struct {
	next int // place in the history
	sent []item
}

// listener is who listens to the splice, and believes it.
type listener struct {
	t      require.TestingT
	h      *history
	last   policy.EventID
	says   map[string]int
	pulled policy.EventID
}

func (l *listener) take(out []item) {
	for _, i := range out {
		require.Greater(l.t, i.id, l.last, "ids rise")
		l.last = i.id
		if i.id > l.pulled {
			l.says[i.name] = l.h.content(i.id)
		}
	}
}

// late is the session's rule: other content makes it pull.
func (l *listener) late(s *splice, late []item) (pulls bool) {
	for _, i := range late {
		if i.id > l.pulled && l.says[i.name] != l.h.content(i.id) {
			l.pull()
			return true
		}
	}
	return false
}

func (l *listener) pull() {
	l.says, l.pulled = map[string]int{}, l.h.head
	for name, x := range l.h.state(l.h.head) {
		l.says[name] = x.content
	}
}

// Two publishers tell one history, each at its pace; either may end, and another
// go on from a mark. Messages are lost, doubled, and overtaken by the other
// publisher's. Answers come from workers that stand somewhere. Whatever happens,
// ids rise, and after an answer at the head the listener has what the history
// says. While every message names the one before it, nothing is late but what the
// node has anyway.
func TestAnyMixOfLiveAndAnsweredIsSplicedInOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		honest := rapid.Bool().Draw(rt, "each names the one before")
		h := &history{head: 10, last: 10}
		names := []string{"a", "b", "c"}
		tell := func() {
			name := rapid.SampledFrom(names).Draw(rt, "name")
			content, silent := rapid.IntRange(1, 3).Draw(rt, "content"), rapid.IntRange(0, 3).Draw(rt, "silent") == 0
			if was, ok := h.state(h.head)[name]; silent && ok {
				content = was.content
			} else {
				silent = false
			}
			h.tell(name, policy.EventID(rapid.IntRange(0, 2).Draw(rt, "gap")), content, silent)
		}
		for range rapid.IntRange(0, 3).Draw(rt, "before") {
			tell()
		}
		after := policy.EventID(rapid.Uint64Range(10, uint64(h.head)).Draw(rt, "after"))
		s := newSplice(after)
		l := &listener{t: rt, h: h, last: after, says: map[string]int{}}
		for name, x := range h.state(after) {
			l.says[name] = x.content
		}
		publishers := [2]*publisher{{next: len(h.all)}, {next: len(h.all)}}
		ask := false
		answer := func(at policy.EventID) {
			out, late, again := s.answer(h.above(s.confirmed, at), max(at, s.confirmed))
			l.take(out)
			ask = again
			if l.late(s, late) {
				require.False(rt, honest, "only what the node has is late when every message names the one before")
			}
		}
		for range rapid.IntRange(20, 60).Draw(rt, "steps") {
			p := publishers[rapid.IntRange(0, 1).Draw(rt, "publisher")]
			switch rapid.SampledFrom([]string{"tell", "tell", "send", "send", "send", "arrive", "arrive", "arrive", "lose", "double", "hand over", "answer"}).Draw(rt, "step") {
			case "tell":
				tell()
			case "send":
				for p.next < len(h.all) && h.all[p.next].silent {
					p.next++
				}
				if p.next < len(h.all) {
					i := h.all[p.next].item
					if !honest && rapid.Bool().Draw(rt, "names none") {
						i.prev = 0
					}
					p.sent = append(p.sent, i)
					p.next++
				}
			case "arrive", "double":
				if len(p.sent) > 0 {
					out, hole := s.live(p.sent[0])
					l.take(out)
					ask = ask || hole
					if hole {
						require.NotEmpty(rt, s.waiting)
					}
				}
				fallthrough
			case "lose":
				if len(p.sent) > 0 && rapid.IntRange(0, 4).Draw(rt, "again") > 0 {
					p.sent = p.sent[1:]
				}
			case "hand over": // what was sent and not received is lost; the other begins at a mark
				p.sent, p.next = nil, rapid.IntRange(0, p.next).Draw(rt, "mark")
			case "answer":
				answer(policy.EventID(rapid.Uint64Range(uint64(s.confirmed), max(uint64(s.confirmed), uint64(h.head))).Draw(rt, "worker stands at")))
			}
		}
		answer(h.head)
		require.False(rt, ask, "an answer at the head leaves nothing open")
		want := map[string]int{}
		for name, x := range h.state(h.head) {
			want[name] = x.content
		}
		require.Equal(rt, want, l.says)
		// And then what comes is handed out as it comes.
		h.last = max(h.last, s.delivered)
		for range 3 {
			x := h.tell("a", 0, 3, false)
			out, hole := s.live(x.item)
			require.False(rt, hole)
			l.take(out)
			require.Equal(rt, x.id, l.last)
		}
	})
}

func TestSplice(t *testing.T) {
	seqs := func(out []item) (n []policy.EventID) {
		for _, i := range out {
			n = append(n, i.id)
		}
		return n
	}
	live := func(s *splice, name string, id, prev policy.EventID) string {
		out, ask := s.live(item{id: id, prev: prev, name: name})
		return fmt.Sprint(seqs(out), ask)
	}
	answer := func(s *splice, upTo policy.EventID, items ...item) string {
		out, late, ask := s.answer(items, upTo)
		return fmt.Sprint(seqs(out), seqs(late), ask)
	}
	a := func(id policy.EventID) item { return item{id: id, name: "a"} }
	b := func(id policy.EventID) item { return item{id: id, name: "b"} }

	t.Run("what follows what was told is handed out", func(t *testing.T) {
		s := newSplice(10)
		require.Equal(t, "[14] false", live(s, "a", 14, 10))
		require.Equal(t, "[15] false", live(s, "b", 15, 14))
		require.Equal(t, "[20] false", live(s, "b", 20, 12), "nothing stands between 12 and 20")
	})
	t.Run("what has a hole before it waits for the answer that covers it", func(t *testing.T) {
		s := newSplice(10)
		require.Equal(t, "[] true", live(s, "a", 14, 12))
		require.Equal(t, "[] true", live(s, "b", 15, 14))
		require.Equal(t, "[11] [] true", answer(s, 11, a(11)), "a worker that lags")
		require.Equal(t, "[12 14 15] [] false", answer(s, 13, a(12)))
		require.Equal(t, "[16] false", live(s, "a", 16, 15))
	})
	t.Run("or for what is missing", func(t *testing.T) {
		s := newSplice(10)
		require.Equal(t, "[] true", live(s, "b", 14, 12))
		require.Equal(t, "[] true", live(s, "b", 13, 12), "out of order")
		require.Equal(t, "[12 13 14] false", live(s, "a", 12, 10))
	})
	t.Run("twice is once", func(t *testing.T) {
		s := newSplice(10)
		require.Equal(t, "[11] false", live(s, "a", 11, 9))
		require.Equal(t, "[] false", live(s, "a", 11, 9))
		require.Equal(t, "[] true", live(s, "a", 14, 13))
		require.Equal(t, "[] true", live(s, "a", 14, 13))
		require.Equal(t, "[13 14] [] false", answer(s, 13, a(11), b(13)))
		require.Equal(t, "[] false", live(s, "a", 9, 0))
	})
	t.Run("what was lost without a hint is late", func(t *testing.T) {
		s := newSplice(10)
		require.Equal(t, "[12] false", live(s, "b", 12, 0))
		require.Equal(t, "[] [11] false", answer(s, 12, a(11), b(12)))
	})
	t.Run("but not what was told anew since", func(t *testing.T) {
		s := newSplice(10)
		require.Equal(t, "[12] false", live(s, "a", 12, 0))
		require.Equal(t, "[] [] false", answer(s, 11, a(11)), "a worker that lags")
	})
	t.Run("too many that wait are asked for", func(t *testing.T) {
		s := newSplice(10)
		for n := range policy.EventID(maxWaiting + 2) {
			live(s, "a", 12+n, 11+n)
		}
		require.Len(t, s.waiting, 2)
		last := policy.EventID(12 + maxWaiting + 1)
		require.Equal(t, fmt.Sprintf("[%d %d] [] false", last-1, last), answer(s, last-1, a(last-1)))
	})
	t.Run("another log is another story", func(t *testing.T) {
		s := newSplice(10)
		live(s, "a", 12, 9)
		s.restart()
		require.Equal(t, "[6] [] false", answer(s, 6, a(6)))
	})
}
