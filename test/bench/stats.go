package main

import (
	"math"
	"slices"
	"time"
)

// samples are values of one thing, taken several times.
type samples []float64

// rate notes how often a second n things were done that took d.
func (s *samples) rate(n int, d time.Duration) {
	*s = append(*s, float64(n)/d.Seconds())
}

// at is the value below which the share q of the samples lies (nearest rank),
// NaN when there are none.
func (s samples) at(q float64) float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(s))
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

// median is the middle sample, or the mean of the two in the middle.
func (s samples) median() float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(s))
	mid := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[mid]
	}
	return (sorted[mid-1] + sorted[mid]) / 2
}
