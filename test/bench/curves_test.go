package main

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnExponentIsFitted(t *testing.T) {
	x := samples{10, 100, 1_000}
	of := func(f func(float64) float64) float64 {
		var y samples
		for _, v := range x {
			y = append(y, f(v))
		}
		return exponent(x, y)
	}
	require.InDelta(t, 1, of(func(n float64) float64 { return 3 * n }), 1e-9)
	require.InDelta(t, 2, of(func(n float64) float64 { return n * n / 7 }), 1e-9)
	require.InDelta(t, 0, of(func(float64) float64 { return 5 }), 1e-9)
	require.InDelta(t, 1.23, of(func(n float64) float64 { return n * math.Log(n) }), 0.02)
}

func TestASteepCurveIsNamed(t *testing.T) {
	c := curve{what: "nodes"}
	line := func(cost func(n int) float64) line {
		var points []point
		for _, n := range []int{1_000, 10_000, 100_000} {
			points = append(points, point{n: n, cost: samples{cost(n)}})
		}
		return c.line("CPU", points, func(p point) float64 { return p.cost.median() * float64(p.n) }, func(p point) string { return short(p.cost.median()) })
	}
	flat := line(func(int) float64 { return 4 })
	require.True(t, flat.Targets[0].Holds)
	require.Equal(t, "CPU, by nodes: 1,000: 4; 10,000: 4; 100,000: 4", flat.Notes[0])
	require.True(t, line(func(n int) float64 { return math.Log(float64(n)) }).Targets[0].Holds)
	require.False(t, line(func(n int) float64 { return math.Sqrt(float64(n)) }).Targets[0].Holds)
}

func TestEachCurveIsMeasured(t *testing.T) {
	for _, c := range curves {
		n := c.sizes[0]
		p, err := c.at(&env{dir: t.TempDir(), quick: true}, n)
		require.NoError(t, err, c.what)
		require.Len(t, p.cost, curveBlocks, c.what)
		require.Positive(t, p.cost.median(), c.what)
	}
}
