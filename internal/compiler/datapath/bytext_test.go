package datapath

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/internal/test/gen"
)

func TestPrefixesAreInTheOrderOfTheirTexts(t *testing.T) {
	gen.Unraced()
	rapid.Check(t, func(t *rapid.T) {
		prefixes, all := map[netip.Prefix]int32{}, []netip.Prefix(nil)
		for range rapid.IntRange(0, 50).Draw(t, "prefixes") {
			b := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 2, 9, 10, 11, 19, 20, 99, 100, 199, 200, 255}), 16, 16).Draw(t, "address")
			a := netip.AddrFrom4([4]byte(b))
			if rapid.Bool().Draw(t, "long") {
				a = netip.AddrFrom16([16]byte(b))
			}
			p, err := a.Prefix(rapid.IntRange(0, a.BitLen()).Draw(t, "bits"))
			require.NoError(t, err)
			if _, known := prefixes[p]; !known {
				prefixes[p], all = 0, append(all, p)
			}
		}
		slices.SortFunc(all, func(a, b netip.Prefix) int { return strings.Compare(a.String(), b.String()) })
		require.Equal(t, all, byText(prefixes))
	})
}

func TestPairsAreSortedByKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.Custom(func(t *rapid.T) uint64 {
			return uint64(newKey(rapid.SampledFrom([]Protocol{TCP, UDP}).Draw(t, "protocol"), rapid.Uint16().Draw(t, "port"), uint8(rapid.IntRange(0, 16).Draw(t, "bits"))))
		})
		many := rapid.SliceOfN(key, 0, 40).Draw(t, "keys")
		var pairs []uint64
		for line := range uint64(rapid.IntRange(0, 3*fewPairs/(1+len(many))).Draw(t, "lines")) {
			for _, k := range many {
				pairs = append(pairs, k<<32|line)
			}
		}
		want := slices.Sorted(slices.Values(pairs))
		slices.SortStableFunc(pairs, func(a, b uint64) int { return int(uint32(a)) - int(uint32(b)) })
		got, _ := sortByKey(pairs, nil)
		require.Equal(t, want, got)
	})
}
