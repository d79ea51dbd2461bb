package main

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheMedianAndTheShares(t *testing.T) {
	for name, c := range map[string]struct {
		s                samples
		median, p50, p99 float64
	}{
		"one":                    {samples{7}, 7, 7, 7},
		"odd, in any order":      {samples{3, 1, 2}, 2, 2, 3},
		"even: between the two":  {samples{4, 1, 2, 3}, 2.5, 2, 4},
		"one far out is no mean": {samples{1, 1, 1, 1000}, 1, 1, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.median, c.s.median())
			require.Equal(t, c.p50, c.s.at(0.5))
			require.Equal(t, c.p99, c.s.at(0.99))
		})
	}
	require.True(t, math.IsNaN(samples{}.median()))
	require.True(t, math.IsNaN(samples{}.at(0.5)))
	hundred := samples{}
	for i := range 100 {
		hundred = append(hundred, float64(100-i))
	}
	require.Equal(t, 99.0, hundred.at(0.99), "nearest rank")
	require.Equal(t, 100.0, hundred.at(1))
	require.Equal(t, 100.0, hundred[0], "the samples keep their order")
}

func TestARateIsPerSecond(t *testing.T) {
	var s samples
	s.rate(500, 250*time.Millisecond)
	require.Equal(t, samples{2000}, s)
}

func TestBusyCoresAreNeitherIdleNorWaitingForADisk(t *testing.T) {
	before := cpuTimes([]byte("cpu  100 0 50 800 50 0 0 0 9 9\ncpu0 1 2 3\n"))
	require.Equal(t, []float64{100, 0, 50, 800, 50, 0, 0, 0}, before, "guests are counted as users already")
	after := cpuTimes([]byte("cpu  120 0 55 850 75 0 0 0 9 9\n"))
	require.Equal(t, 0.25, busyShare(before, after))
	require.Equal(t, -1.0, busyShare(before, before), "no time has passed")
	require.Equal(t, -1.0, busyShare(nil, nil), "nothing is known")
	require.True(t, load{Busy: 1.5}.disturbed())
	require.False(t, load{Average: 3, Busy: 0.1}.disturbed(), "the average remembers the measure before")
	require.Equal(t, 0.42, firstNumber("0.42 0.40 0.39 1/100 5\n"))
}

func TestResidentMemoryIsReadInBytes(t *testing.T) {
	const status = "Name:\tedict\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n"
	rss, err := statusBytes(status, "VmRSS")
	require.NoError(t, err)
	require.Equal(t, float64(1<<20), rss)
	_, err = statusBytes(status, "VmSwap")
	require.Error(t, err)
}
