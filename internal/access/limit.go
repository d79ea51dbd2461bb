package access

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/edictdev/edict/policy"
)

// Limiter gives each principal a number of requests a second, and twice as many
// at once after a quiet time. One that asks for more than its share waits for
// itself alone.
type Limiter struct {
	each rate.Limit
	of   sync.Map // policy.PrincipalID → *rate.Limiter; principals are counted
}

// NewLimiter allows each principal perSecond requests; 0: any number.
func NewLimiter(perSecond int) *Limiter { return &Limiter{each: rate.Limit(perSecond)} }

// Take counts a request. When it is one too many, wait says after how long there
// is room again.
func (l *Limiter) Take(id policy.PrincipalID, now time.Time) (wait time.Duration, ok bool) {
	if l == nil || l.each == 0 {
		return 0, true
	}
	v, known := l.of.Load(id)
	if !known {
		v, _ = l.of.LoadOrStore(id, rate.NewLimiter(l.each, max(1, 2*int(l.each))))
	}
	if v.(*rate.Limiter).AllowN(now, 1) {
		return 0, true
	}
	return time.Duration(float64(time.Second) / float64(l.each)), false
}
