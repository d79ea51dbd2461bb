package convergence

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/projector"
)

// maxEarlier is how many changes of a policy are remembered beside the last one.
const maxEarlier = 7

// Arrival is how a change of a policy arrived at its nodes.
type Arrival struct {
	Seq      uint64    // of the event
	Time     time.Time // of the event; zero: nobody knows any more
	Revision uuid.UUID // that it was about; zero: a deletion, or likewise
	Nodes    int       // whose time is known
	P50, P99 *float64  // as in Rollout
	Curve    []Point
}

// Point says how many nodes had a change so many seconds after its commit.
type Point struct {
	Seconds float64
	Nodes   int
}

// followed is the timing of a newer change.
func (x *timing) followed(seq uint64) *timing {
	next := &timing{seq: seq}
	if x == nil {
		return next
	}
	next.earlier = x.earlier
	if x.times.count > 0 {
		next.earlier = slices.Insert(slices.Clone(x.earlier), 0, timing{seq: x.seq, times: x.times})
	}
	next.earlier = next.earlier[:min(len(next.earlier), maxEarlier)]
	return next
}

// arrivals are the policy's, the one of its last change first. times are of that.
func (t *Tracker) arrivals(id uuid.UUID, s steps, newest uint64, times *sketch) (out []Arrival) {
	add := func(seq uint64, times *sketch) {
		if times.count == 0 {
			return
		}
		a := Arrival{Seq: seq, Nodes: int(times.count), P50: times.quantile(0.50), P99: times.quantile(0.99), Curve: times.curve()}
		if i := slices.IndexFunc(s, func(x projector.Step) bool { return x.Seq == seq }); i >= 0 {
			a.Time, a.Revision = s[i].Time, s[i].Revision
			if s[i].Trial != nil {
				a.Revision = s[i].Trial.Revision
			}
		}
		out = append(out, a)
	}
	add(newest, times)
	x := t.rollouts[id]
	if x == nil {
		return out
	}
	if x.seq != newest {
		add(x.seq, &x.times)
	}
	for i := range x.earlier {
		add(x.earlier[i].seq, &x.earlier[i].times)
	}
	return out
}

// curve is how many had it after each time that the buckets keep apart.
func (s *sketch) curve() (points []Point) {
	sum := 0
	for _, b := range slices.Sorted(maps.Keys(s.buckets)) {
		sum += int(s.buckets[b])
		seconds := math.Exp2(float64(b)/perDoubling) / 1000
		points = append(points, Point{math.Round(seconds*1e6) / 1e6, sum})
	}
	return points
}
