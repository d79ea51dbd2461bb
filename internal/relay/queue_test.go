package relay

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/policy"
)

// A queue is held against a list in which the newer of a subject takes the place
// of the older, at the end.
func TestAQueueKeepsTheNewestOfEachSubject(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q queue
		var want []*message
		next := policy.EventID(1)
		make := func() *message {
			next++
			return &message{id: next, subject: subject{name: string(rune('a' + rapid.IntRange(0, 3*short).Draw(t, "about")))}}
		}
		put := func(n *message) {
			kept := want[:0:0]
			for _, w := range want {
				if w.subject != n.subject {
					kept = append(kept, w)
				}
			}
			want = append(kept, n)
		}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(*rapid.T) {
				n := make()
				q.put(n)
				put(n)
			},
			"take": func(t *rapid.T) {
				most := rapid.IntRange(0, 2*short).Draw(t, "most")
				got := q.take([]*message{nil}, most)[1:]
				most = min(most, len(want))
				require.Equal(t, append([]*message{}, want[:most]...), append([]*message{}, got...))
				want = want[most:]
			},
			"precede": func(t *rapid.T) {
				live := want
				var older []*message
				seen := map[subject]bool{}
				for range rapid.IntRange(0, short).Draw(t, "older") {
					if n := make(); !seen[n.subject] {
						seen[n.subject] = true
						older = append(older, n)
					}
				}
				q.precede(older)
				want = nil
				for _, n := range append(older, live...) {
					put(n)
				}
			},
			"drop": func(*rapid.T) {
				q.drop()
				want = nil
			},
			"": func(t *rapid.T) { require.Equal(t, len(want), q.len()) },
		})
	})
}
