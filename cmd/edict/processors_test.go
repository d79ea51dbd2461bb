package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAProcessorIsSparedForTheNetwork(t *testing.T) {
	for _, tt := range []struct {
		why        string
		operators  string
		now, cores int
		want       int
	}{
		{"all cores are ours", "", 2, 2, 4},
		{"there is one core", "", 1, 1, 3},
		{"a control group bounds our time", "", 2, 64, 2},
		{"the operator decides", "2", 2, 2, 2},
		{"the operator has decided what we would", "4", 4, 2, 4},
	} {
		require.Equal(t, tt.want, processors(tt.operators, tt.now, tt.cores), tt.why)
	}
}
