package faults

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheCheckerFindsNothingWhereNothingIsWrong(t *testing.T) {
	for _, with := range []cast{alone, rival, behind} {
		t.Run(string(with), func(t *testing.T) {
			require.Empty(t, scenario(t, 1, with, false, false))
		})
	}
}
