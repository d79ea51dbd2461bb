package faults

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheCheckerFindsNothingWhereNothingIsWrong(t *testing.T) {
	for _, with := range []cast{alone, rival, brief, tight} {
		t.Run(string(with), func(t *testing.T) {
			for seed := range uint64(*cutSeeds) {
				require.Empty(t, scenario(t, seed+1, with, false), "seed %d", seed+1)
			}
		})
	}
}
