package datapath

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/gen"
)

// fewest is how many aligned blocks make up from..to of start..start+size-1.
func fewest(from, to, start, size int) int {
	switch end := start + size - 1; {
	case to < start || from > end:
		return 0
	case from <= start && end <= to:
		return 1
	}
	half := size / 2
	return fewest(from, to, start, half) + fewest(from, to, start+half, half)
}

func TestAPortRangeIsTheFewestPrefixesAndExactlyItsPorts(t *testing.T) {
	gen.Unraced()
	r := rand.New(rand.NewPCG(8, 8))
	ranges := [][2]int{{0, 65535}, {1, 65534}, {1, 1}, {65535, 65535}, {1, 1023}, {32768, 65535}}
	for range 40 {
		from := r.IntN(65536)
		ranges = append(ranges, [2]int{from, from + r.IntN(65536-from)})
	}
	for _, x := range ranges {
		from, to := x[0], x[1]
		keys := appendRange(nil, TCP, uint16(from), uint16(to))
		require.Len(t, keys, fewest(from, to, 0, 1<<16), "%d-%d", from, to)
		for port := range 1 << 16 {
			in := 0
			for _, k := range keys {
				if k.holds(TCP, uint16(port)) {
					in++
				}
			}
			want := 0
			if from <= port && port <= to {
				want = 1
			}
			if in != want {
				require.Equal(t, want, in, "port %d of %d-%d", port, from, to)
			}
		}
	}
}

func TestLevelsThatOccurAreCountedAndBounded(t *testing.T) {
	rule := func(tier Tier, priority uint32, index int, ordered bool, v Verdict) *Rule {
		return &Rule{Tier: tier, Priority: priority, Ordered: ordered, Ref: Ref{Index: index}, Verdict: v}
	}
	rules := []*Rule{
		rule(Admin, 7, 0, true, Log),
		rule(Admin, 7, 1, true, Deny),
		rule(Admin, 7, 2, true, Pass),
		rule(Normal, 1000, 0, false, Deny),
		rule(Normal, 1000, 5, false, Allow),
		rule(Normal, MaxPriority, 0, false, Allow),
	}
	got, err := precedences(Ingress, rules, 4)
	require.NoError(t, err)
	require.Equal(t, []uint32{0, 0xFFFFFFFF, 0xFFFFFE00, 0xFFFFFDFF, 0xFFFFFD01, 0xFFFFFC01}, got)
	_, err = precedences(Ingress, rules, 3)
	require.Equal(t, &LevelsError{Direction: Ingress, Levels: 4, Capacity: 3}, err)
	require.ErrorContains(t, err, "ingress rules stand at 4 levels")
}
