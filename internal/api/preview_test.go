package api

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// members makes a side out of words.
func members(words string) []projector.Member {
	var out []projector.Member
	for _, w := range strings.Fields(words) {
		out = append(out, projector.Member{ID: policy.NodeID(w), Addressed: true})
	}
	return out
}

func TestPairsAffected(t *testing.T) {
	for _, c := range []struct {
		name          string
		before, after [2]string
		sameRules     bool
		want          uint64
	}{
		{"nothing changes", [2]string{"a b", "c"}, [2]string{"a b", "c"}, true, 0},
		{"other rules for all pairs", [2]string{"a b", "c d"}, [2]string{"a b", "c d"}, false, 4},
		{"a source more", [2]string{"a", "c d"}, [2]string{"a b", "c d"}, true, 2},
		{"a source less", [2]string{"a b", "c d"}, [2]string{"b", "c d"}, true, 2},
		{"other nodes altogether", [2]string{"a", "b"}, [2]string{"c", "d"}, true, 2},
		{"a node is no pair with itself", [2]string{"a b", "a b"}, [2]string{"", ""}, true, 2},
		{"a side that matches nobody makes no pair", [2]string{"a", ""}, [2]string{"", "b"}, false, 0},
		{"the way between them counts", [2]string{"a", "b"}, [2]string{"b", "a"}, true, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := sides{members(c.before[0]), members(c.before[1])}
			after := sides{members(c.after[0]), members(c.after[1])}
			require.Equal(t, c.want, pairsAffected(before, after, c.sameRules))
		})
	}
}

// The oracle lists every pair and compares what it had with what it gets.
func TestPairsAreCountedAsIfListed(t *testing.T) {
	names := strings.Fields("a b c d e f g")
	rapid.Check(t, func(rt *rapid.T) {
		side := func(label string) []projector.Member {
			picked := rapid.SliceOfDistinct(rapid.SampledFrom(names), rapid.ID).Draw(rt, label)
			slices.Sort(picked)
			return members(strings.Join(picked, " "))
		}
		before := sides{side("from"), side("to")}
		after := sides{side("new from"), side("new to")}
		same := rapid.Bool().Draw(rt, "same rules")
		want := uint64(0)
		for _, s := range names {
			for _, d := range names {
				had, has := before.has(s, d), after.has(s, d)
				if s != d && (had || has) && (had != has || !same) {
					want++
				}
			}
		}
		require.Equal(rt, want, pairsAffected(before, after, same))
	})
}

func (s sides) has(source, destination string) bool {
	in := func(ms []projector.Member, id string) bool {
		return slices.ContainsFunc(ms, func(m projector.Member) bool { return string(m.ID) == id })
	}
	return in(s.source, source) && in(s.destination, destination)
}
