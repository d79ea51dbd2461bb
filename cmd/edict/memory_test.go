package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMemoryIsGivenBackOnceThingsAreQuiet(t *testing.T) {
	var live, allocated uint64
	var limits []int64
	released := 0
	m := gcTuner{
		read:    func() (uint64, uint64) { return live, allocated },
		limit:   func(n int64) int64 { limits = append(limits, n); return 0 },
		release: func() { released++ },
		given:   len(rests),
	}
	for range 30 {
		m.look()
	}
	require.Zero(t, released, "nothing to give back before anything was done")
	for range 5 {
		allocated += 100 << 20
		m.look()
	}
	require.Zero(t, released, "not while there is work")
	m.look()
	require.Zero(t, released)
	m.look()
	require.Equal(t, 1, released)
	for range 300 {
		allocated += 1 << 20
		m.look()
	}
	require.Equal(t, len(rests), released, "a few times more, and then no more")

	require.Equal(t, int64(leastLimit), limits[0])
	live = 1 << 30
	m.look()
	require.Equal(t, int64(7<<28), limits[len(limits)-1], "the limit follows what is in use")
}

// A fleet of agents keeps a plane on the edge of being quiet.
func TestMemoryIsNotGivenBackAtEachTurn(t *testing.T) {
	var allocated uint64
	released := 0
	m := gcTuner{
		read:    func() (uint64, uint64) { return 0, allocated },
		limit:   func(int64) int64 { return 0 },
		release: func() { released++ },
		given:   len(rests),
	}
	for i := range 120 {
		allocated += quietBytes + 1<<20*uint64(i%4/2) - 1
		m.look()
	}
	require.LessOrEqual(t, released, 4)
}
