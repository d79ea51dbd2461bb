package api

import (
	"cmp"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/backoff"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// CodeProjectOverShare is of a write for a project that has had its share of the log.
const CodeProjectOverShare = "project_over_share"

// quota holds every project to its share of the log.
type quota struct {
	model views
	clock func() time.Time
	limit uint64 // bytes in projector.UsageHours; 0: any number
	// shutOut are those whose producers are shut out for a while, and until when; nil: none.
	shutOut func() map[uuid.UUID]time.Time

	held atomic.Int32 // requests that wait in hold
}

const (
	// quotaHold is how long a request that a project's quota refuses waits for its answer, or
	// until a rate lets it pass: who asks again at once costs his neighbours little.
	quotaHold = 100 * time.Millisecond
	// mostHeld requests may wait so at once; others are refused without.
	mostHeld = 256
)

// check refuses an event of a project that took its share of the log in the
// last day. What only takes away passes: it is bounded by what is there, and an
// allow that must go has to go. Administrators pass, as they do over NATS.
func (q *quota) check(c *call, e policy.Event) error { return q.checkAfter(c, nil, e) }

// checkAfter is check of an event that would come after those of a rehearsal; nil:
// after those that there are.
func (q *quota) checkAfter(c *call, r *projector.Rehearsal, e policy.Event) error {
	project := e.Scope()
	if err := q.judge(c, r, e); err != nil {
		return err
	}
	if q.limit == 0 || project == uuid.Nil || policy.KindOf(e).Ends || c.who != nil && c.who.Decide(access.AdminPlane, access.Object{}) == access.Allow {
		return nil
	}
	var u projector.Usage
	q.model.Read(func(v *projector.View) {
		if u = v.Usage(project); r != nil {
			u = r.Usage(v)
		}
	})
	now := q.clock()
	taken := u.Bytes(now)
	if taken < q.limit {
		return nil
	}
	until := u.Below(q.limit, now)
	c.retryIn(until.Sub(now))
	return problem(http.StatusTooManyRequests, CodeProjectOverShare,
		"project %s took %d bytes of the log in %d hours, and its share is %d: deletions are taken, other writes again from %s on",
		project, taken, projector.UsageHours, q.limit, until.UTC().Format(time.RFC3339))
}

// checkAll is why checkAfter refuses each of some events of one project; nil: it does not
// refuse all of them, and the fold judges one by one.
func (q *quota) checkAll(c *call, r *projector.Rehearsal, events []streams.Append) (refused []error) {
	for _, a := range events {
		err := q.checkAfter(c, r, a.Event)
		if err == nil {
			c.w.Header().Del("Retry-After") // of those before
			return nil
		}
		refused = append(refused, err)
	}
	return refused
}

// judge refuses what the fold would reject for the project's own quota, before it is
// appended. Administrators are refused, too: the fold knows of none.
func (q *quota) judge(c *call, r *projector.Rehearsal, e policy.Event) error {
	over, ready := q.over(r, e)
	if over != nil && q.hold(c, ready) {
		over, ready = q.over(r, e)
	}
	if over == nil {
		return nil
	}
	if ready > 0 {
		c.retryIn(ready)
	}
	return refused(over)
}

// over is the quota's refusal of an event, and in how long a rate lets another pass.
func (q *quota) over(r *projector.Rehearsal, e policy.Event) (over *streams.Rejection, ready time.Duration) {
	now := q.clock()
	var at time.Time
	q.model.Read(func(v *projector.View) { over, at = r.Over(v, e, now) })
	return over, at.Sub(now)
}

// hold has a request wait, once, and reports whether it is to be judged again.
func (q *quota) hold(c *call, ready time.Duration) bool {
	if c.held || c.dry {
		return false
	}
	c.held = true
	wait := quotaHold
	if ready > 0 {
		wait = min(wait, ready)
	}
	defer q.held.Add(-1)
	return q.held.Add(1) <= mostHeld && backoff.Sleep(c.r.Context(), wait) == nil
}

// mostShares is how many projects a status lists of those within their share.
const mostShares = 20

// shares are what projects took of the log: all that are over their share, and
// of the others those that took most.
func (q *quota) shares() resource.Shares {
	out := resource.Shares{Limit: q.limit, Hours: projector.UsageHours, Projects: []resource.Share{}}
	now := q.clock()
	var shutOut map[uuid.UUID]time.Time
	if q.shutOut != nil {
		shutOut = q.shutOut()
	}
	q.model.Read(func(v *projector.View) {
		for project, u := range v.Usages() {
			if taken := u.Bytes(now); taken > 0 {
				s := resource.Share{Project: project.String(), Bytes: taken, Over: q.limit > 0 && taken >= q.limit}
				if until, is := shutOut[project]; is {
					s.ShutOut = &until
				}
				out.Projects = append(out.Projects, s)
			}
		}
	})
	slices.SortFunc(out.Projects, func(a, b resource.Share) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Project, b.Project))
	})
	for out.Over < len(out.Projects) && out.Projects[out.Over].Over {
		out.Over++
	}
	first := min(len(out.Projects), max(out.Over, mostShares))
	rest := slices.DeleteFunc(out.Projects[first:], func(s resource.Share) bool { return s.ShutOut == nil })
	out.Projects = out.Projects[:first+len(rest)]
	return out
}
