package api

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/edictdev/edict/internal/access"
)

// revalidate has end called once the principal of a stream may have it no longer,
// because a token or a relation was taken back or is over.
func (a *authorizer) revalidate(c *call, end func()) (stop func()) {
	if a.access == nil {
		return func() {}
	}
	s := cachedDecision{auth: a, c: c}
	return a.streams.join(func() bool {
		if c.r.Context().Err() != nil {
			return false // it ended by itself
		}
		if s.holds() || s.decide() {
			return true
		}
		end()
		return false
	})
}

// follow is revalidate for a stream of what operators follow, which end ends as well when its
// principal has too many.
func (a *authorizer) follow(c *call, end func()) (stop func()) {
	if a.access == nil {
		return func() {}
	}
	leave := a.followed.join(holding{who: c.who.ID}, followedEach, end)
	forget := a.revalidate(c, end)
	return func() { forget(); leave() }
}

// cachedDecision is what was decided about a stream's principal last. It changes with the
// log and with the end of a credential, and with nothing else.
type cachedDecision struct {
	auth  *authorizer
	c     *call
	seq   uint64    // folded when it was found
	until time.Time // zero: for ever
	sure  bool
}

// holds reports whether deciding again would find what the last one did.
func (s *cachedDecision) holds() bool {
	return s.sure && s.auth.model.Applied() == s.seq && (s.until.IsZero() || s.auth.clock().Before(s.until))
}

// decide reports whether the principal may still have the stream.
func (s *cachedDecision) decide() bool {
	a, ctx := s.auth, s.c.r.Context()
	s.seq = a.model.Applied()                // before: what is folded meanwhile is looked at again
	given, ends, err := a.credentials(s.c.r) // a certificate or a session may be over by now
	if err != nil {
		return false
	}
	s.until, s.sure = a.access.Until(given)
	s.until = earlier(s.until, ends)
	who, err := a.access.Authenticate(ctx, given)
	if err != nil || who.Decide(s.c.route.Needs, a.object(s.c)) != access.Allow {
		return false
	}
	return !s.c.route.byRelations || slices.Equal(who.Relations(), s.c.who.Relations())
}

// revalidateEvery is how often each open stream is looked at again.
const revalidateEvery = 3 * time.Second

// revalidatorGroups divides the streams, so that very many are not looked at in one
// go.
const revalidatorGroups = 12

// revalidator looks at many streams, each every revalidateEvery, by one timer: a timer of
// its own for each would wake the process hundreds of times a second to find
// that nothing has changed. Without streams there is no timer.
type revalidator struct {
	mu      sync.Mutex
	groups  [revalidatorGroups]map[*revalidated]struct{}
	next    int // group whose turn is next
	streams int // in all groups
	runs    bool
}

// revalidated is one stream's; again says whether to look again.
type revalidated struct{ again func() bool }

// join has again called every revalidateEvery until it returns false or leave is
// called. A call that has begun by then goes on.
func (r *revalidator) join(again func() bool) (leave func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := &revalidated{again}
	at := (r.next + revalidatorGroups - 1) % revalidatorGroups // was looked at last, so comes after a whole round
	if r.groups[at] == nil {
		r.groups[at] = map[*revalidated]struct{}{}
	}
	r.groups[at][l] = struct{}{}
	r.streams++
	if !r.runs {
		r.runs = true
		time.AfterFunc(revalidateEvery/revalidatorGroups, r.turn)
	}
	return func() { r.drop(at, l) }
}

func (r *revalidator) drop(at int, l *revalidated) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, in := r.groups[at][l]; in {
		delete(r.groups[at], l)
		r.streams--
	}
}

// turn looks at one group and sees to the next one's turn.
func (r *revalidator) turn() {
	r.mu.Lock()
	at := r.next
	r.next = (at + 1) % revalidatorGroups
	group := slices.Collect(maps.Keys(r.groups[at]))
	r.mu.Unlock()
	for _, l := range group {
		if !l.again() {
			r.drop(at, l)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.runs = r.streams > 0; r.runs {
		time.AfterFunc(revalidateEvery/revalidatorGroups, r.turn)
	}
}
