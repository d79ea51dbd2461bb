package relay

import (
	"fmt"
	"testing"

	"github.com/edictdev/edict/streams"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestAQueueKeepsTheNewestMessageOfEachSubjectAtItsTail(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSubscriber("n0")
		var want []*news // the honest queue: delete the older one, append
		floor, seq := uint64(0), uint64(0)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch rapid.IntRange(0, 20).Draw(t, "what") {
			case 0:
				got, ended := s.drain()
				require.False(t, ended)
				require.Equal(t, len(want), len(got))
				for i := range want {
					require.Equal(t, want[i], got[i])
				}
				want = nil
			case 1:
				floor = max(floor, uint64(rapid.IntRange(0, int(seq)+3).Draw(t, "floor")))
				s.skipTo(floor)
				var kept []*news
				for _, m := range want {
					if m.Seq > floor {
						kept = append(kept, m)
					}
				}
				want = kept
			default:
				seq++
				m := resync(seq)
				if i := rapid.IntRange(0, 5).Draw(t, "subject"); i > 0 {
					m.Subject = fmt.Sprint("s", i) // 0: a word to pull
				}
				s.push(m)
				if seq <= floor {
					continue
				}
				var kept []*news
				for _, x := range want {
					if x.Subject != m.Subject {
						kept = append(kept, x)
					}
				}
				want = append(kept, m)
			}
			require.LessOrEqual(t, len(s.waiting), 2*6+1, "memory is bounded by the subjects")
		}
	})
}

func TestAQueueThatEndedTakesNothingMore(t *testing.T) {
	s := newSubscriber("n0")
	s.push(&news{Message: streams.Message{Seq: 1, Subject: "a"}})
	s.end()
	s.push(&news{Message: streams.Message{Seq: 2, Subject: "b"}})
	<-s.wake
	msgs, ended := s.drain()
	require.Len(t, msgs, 1)
	require.True(t, ended)
}
