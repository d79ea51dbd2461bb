package faults

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheCheckerFindsNothingWhereNothingIsWrong(t *testing.T) {
	casts := []cast{rival, brief, tight}
	if *cutSeeds > 1 { // two workers do what one does
		casts = append(casts, alone)
	}
	for _, with := range casts {
		t.Run(string(with), func(t *testing.T) {
			for seed := range uint64(*cutSeeds) {
				require.Empty(t, scenario(t, seed+1, with, false), "seed %d", seed+1)
			}
		})
	}
}
