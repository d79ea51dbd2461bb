package main

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProcessorsAreSparedForTheNetworkBesideAFold(t *testing.T) {
	for _, tt := range []struct {
		why              string
		now, cores, want int
	}{
		{"all cores are ours", 2, 2, 4},
		{"there is one core", 1, 1, 3},
		{"it is so already", 4, 2, 4},
		{"a control group bounds our time", 2, 64, 2},
	} {
		require.Equal(t, tt.want, busyProcessors(tt.now, tt.cores), tt.why)
	}
	require.Nil(t, listensWhileBusy("2"), "the operator decides")
	usual := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(usual)
	say := listensWhileBusy("")
	say(true)
	require.Equal(t, busyProcessors(usual, runtime.NumCPU()), runtime.GOMAXPROCS(0))
	say(false)
	require.LessOrEqual(t, runtime.GOMAXPROCS(0), runtime.NumCPU())
}
