package convergence

import (
	"maps"
	"math"
	"slices"
	"time"
)

// sketch counts durations so that quantiles of many cost little memory: eight
// buckets to a doubling, so a quantile is off by 5 % at most. Below a
// millisecond all are one. The zero value is empty.
type sketch struct {
	buckets map[uint16]uint32
	count   uint64
}

const perDoubling = 8

func (s *sketch) add(d time.Duration) {
	if s.buckets == nil {
		s.buckets = map[uint16]uint32{}
	}
	b := uint16(0)
	if ms := float64(d) / float64(time.Millisecond); ms > 1 {
		b = 1 + uint16(math.Log2(ms)*perDoubling)
	}
	s.buckets[b]++
	s.count++
}

// quantile is the duration in seconds that the part q of all did not exceed;
// nil when there are none.
func (s *sketch) quantile(q float64) *float64 {
	if s.count == 0 {
		return nil
	}
	rank := max(1, uint64(math.Ceil(q*float64(s.count))))
	for _, b := range slices.Sorted(maps.Keys(s.buckets)) {
		n := uint64(s.buckets[b])
		if n >= rank {
			seconds := 0.001
			if b > 0 {
				seconds *= math.Exp2((float64(b) - 0.5) / perDoubling)
			}
			seconds = math.Round(seconds*1e6) / 1e6
			return &seconds
		}
		rank -= n
	}
	return nil // ranks are at most count
}
