package convergence

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

func label(value string) policy.Labels { return policy.Labels{{Key: "role", Value: value}} }

func selector(t require.TestingT, side string) policy.Selector {
	e, faults := policy.ParseExpr(side)
	require.Empty(t, faults)
	return policy.Selector{Source: e, Destination: e}
}

func rules(name string) compiler.Fingerprint { return compiler.FingerprintOf([]byte(name)) }

func at(seq uint64) time.Time { return time.Unix(int64(seq), 0).UTC() }

// outcome is a history in words: what each label set had after each step, worked
// out step by step from the oldest on.
type outcome struct {
	seq uint64
	has string // the rules, or nothing
}

func replay(s steps, role string) []outcome {
	out := []outcome{{0, ""}}
	for i := len(s) - 1; i >= 0; i-- {
		has := ""
		if !s[i].Deleted && s[i].Selector.Matches(label(role)) {
			has = s[i].Fingerprint.String()
		}
		out = append(out, outcome{s.seq(i), has})
	}
	return out
}

// The last change of a row, and the first one above a sequence, are those of
// which replays the whole history.
func TestChangesAreThoseOfTheHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "steps")
		var s steps
		seq := uint64(0)
		for i := range n {
			seq += uint64(rapid.IntRange(1, 3).Draw(t, "gap"))
			step := projector.Step{Seq: seq, Time: at(seq)}
			if i > 0 && i == n-1 && rapid.Bool().Draw(t, "deleted") {
				step.Deleted = true
			} else {
				step.Selector = selector(t, "role in ("+rapid.SampledFrom([]string{"a", "b", "a,b", "b,c", "d"}).Draw(t, "roles")+")")
				step.Fingerprint = rules(rapid.SampledFrom([]string{"x", "y"}).Draw(t, "rules"))
			}
			s = append(steps{step}, s...)
		}
		above := uint64(rapid.IntRange(0, int(seq)+1).Draw(t, "above"))
		for _, role := range []string{"a", "b", "c", "d", "e"} {
			history := replay(s, role)
			var last, first uint64
			for i := 1; i < len(history); i++ {
				if history[i].has != history[i-1].has {
					last = history[i].seq
					if last > above && first == 0 {
						first = last
					}
				}
			}
			c, ok := s.last(label(role))
			require.Equal(t, last > 0, ok)
			require.Equal(t, last, c.seq)
			f, ok := s.firstAbove(above, label(role))
			require.Equal(t, first > 0, ok)
			require.Equal(t, first, f.seq)
			for _, c := range []change{c, f} {
				if c.seq > 0 {
					require.Equal(t, at(c.seq), c.time)
					require.Equal(t, history[len(history)-1].has != "", c.has)
				}
			}
		}
	})
}

func TestADeletionWhoseSequenceNobodyKnowsIsReachedByNoVersion(t *testing.T) {
	s := steps{{Deleted: true, Time: at(9)}, {Seq: 4, Time: at(4), Selector: selector(t, "role=a"), Fingerprint: rules("x")}}
	c, ok := s.last(label("a"))
	require.True(t, ok)
	require.False(t, c.has)
	r := report{version: 1 << 60, at: 1}
	require.False(t, r.proves(c.seq))
	r.holds = true
	require.True(t, r.proves(c.seq))
}

func TestSelectorsOfAHistoryComeOnce(t *testing.T) {
	s := steps{{Deleted: true}, {Selector: selector(t, "role=a")}, {Selector: selector(t, "role=b")}, {Selector: selector(t, "role=a")}}
	require.Len(t, s.selectors(), 2)
}

func TestQuantilesAreExactToFivePerCent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s sketch
		all := rapid.SliceOfN(rapid.Int64Range(2, 10_000_000), 1, 60).Draw(t, "milliseconds")
		for _, ms := range all {
			s.add(time.Duration(ms) * time.Millisecond)
		}
		for _, q := range []float64{0.01, 0.5, 0.99, 1} {
			got := *s.quantile(q)
			require.True(t, near(all, q, got), fmt.Sprintf("%v is no quantile %v of %v ms", got, q, all))
		}
	})
	var none sketch
	require.Nil(t, none.quantile(0.5))
	none.add(-time.Second)
	require.InDelta(t, 0.001, *none.quantile(0.5), 1e-9)
}

// near: at least the part q of all are not above seconds, and less than that
// are below it, 5 % aside.
func near(all []int64, q, seconds float64) bool {
	below, upTo := 0, 0
	for _, ms := range all {
		x := float64(ms) / 1000
		if x < seconds*0.95 {
			below++
		}
		if x <= seconds*1.05 {
			upTo++
		}
	}
	n := float64(len(all))
	return float64(upTo) >= q*n && float64(below) < max(1, q*n)
}
