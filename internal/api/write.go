package api

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/fault"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

var (
	// errUnchanged ends a check with: the facts are so already, write nothing.
	errUnchanged = errors.New("unchanged")
	// errUnknown ends a check with: there is no such thing yet, write the first.
	errUnknown = errors.New("unknown")
)

// commit appends one event and waits for the fold's verdict. An error is the
// problem to answer with: the fold's refusal, or that no verdict came in time.
// created is remembered for a retry under the same key.
func (p *plane) commit(c *call, e policy.Event, created bool) (projector.Verdict, error) {
	return p.append(c, streams.Append{Event: e}, created)
}

// append is commit of an event that may be in the log already.
func (p *plane) append(c *call, a streams.Append, created bool) (projector.Verdict, error) {
	e := a.Event
	if err := p.writable(); err != nil {
		return projector.Verdict{}, err
	}
	if err := p.affordable(c, e); err != nil {
		return projector.Verdict{}, err
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), p.WritePatience)
	defer cancel()
	trace, done := p.publishing(c, e.EventType(), 1)
	fault.Pass(fault.AppendBefore)
	a.Traceparent, a.Principal, a.Correlation, a.Request = trace.String(), c.author(), c.correlation, c.asked
	seq, stood, err := p.Log.Publish(ctx, a)
	fault.Pass(fault.AppendAfter)
	done(seq, err)
	if fault.Always(fault.Unacknowledged) && errors.Is(err, streams.ErrUnknown) {
		return projector.Verdict{}, nil
	}
	if err != nil {
		return projector.Verdict{}, unpublished(err)
	}
	if c.key != "" {
		p.recent.put(e.EventID(), recentWrite{seq, created})
	}
	v, err := p.verdict(ctx, seq)
	if err == nil && (stood || v.Duplicate) {
		if err = p.sameBody(ctx, e, c.asked); err != nil {
			p.recent.forget(e.EventID())
		}
	}
	fault.Pass(fault.AcknowledgeBefore)
	return v, err
}

// insist makes a change that names no version it is for: what others changed in
// between is taken into account, not a conflict. try reads what there is, and
// appends; it is told whether the event was refused before, and is repeated
// while the fold says revision_conflict, for as long as a write may take.
func (p *plane) insist(c *call, try func(again bool) error) error {
	if err := p.catchUp(c, 0); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), p.WritePatience)
	defer cancel()
	for again := false; ; again = true {
		err := try(again)
		var pr *resource.Problem
		switch {
		case !errors.As(err, &pr) || pr.Code != projector.CodeRevisionConflict:
			return err
		case ctx.Err() != nil:
			return problem(http.StatusServiceUnavailable, CodeContended, "others changed it each time that this change was tried; try again")
		}
	}
}

// madeBefore finds a keyed write that this process made lately.
func (p *plane) madeBefore(c *call, e policy.Event) (seq uint64, created, ok bool) {
	if c.key == "" {
		return 0, false, false
	}
	w, ok := p.recent.get(e.EventID())
	return w.seq, w.created, ok
}

// await is the verdict of an event that was appended before, if the request is
// what it was then.
func (p *plane) await(c *call, e policy.Event, seq uint64) (projector.Verdict, error) {
	ctx, cancel := context.WithTimeout(c.r.Context(), p.WritePatience)
	defer cancel()
	v, err := p.verdict(ctx, seq)
	if err == nil {
		err = p.sameBody(ctx, e, c.asked)
	}
	return v, err
}

// verdict waits for the fold. A verdict that is forgotten was given long ago
// to an event sent again, and was no refusal: those are kept.
func (p *plane) verdict(ctx context.Context, seq uint64) (projector.Verdict, error) {
	v, err := p.Model.Verdict(ctx, seq)
	switch {
	case errors.Is(err, projector.ErrForgotten):
		return projector.Verdict{Seq: seq, Duplicate: true}, nil
	case err != nil && ctx.Err() != nil:
		return v, behind(seq, p.Model.Applied())
	case err != nil:
		return v, err
	case v.Rejection != nil:
		return v, refused(v.Rejection)
	}
	return v, nil
}

func (p *plane) writable() error {
	if p.Damaged != nil {
		if err := p.Damaged(); err != nil {
			return problem(http.StatusServiceUnavailable, CodeLogUnavailable, "the log is damaged, and takes no writes: %v", err)
		}
	}
	if p.Writable == nil {
		return nil
	}
	if err := p.Writable(); err != nil {
		return problem(http.StatusInsufficientStorage, CodeStorageLow, "the plane takes no writes now: %v", err)
	}
	return nil
}

// unpublished is an append that was not acknowledged. Unless the log said that
// it is full, it may be stored all the same: only a retry under the same
// Idempotency-Key is the same write.
func unpublished(err error) *resource.Problem {
	if errors.Is(err, streams.ErrStorage) {
		return problem(http.StatusInsufficientStorage, CodeStorageLow, "the log takes no more events: %v", err)
	}
	return problem(http.StatusServiceUnavailable, CodeLogUnavailable,
		"the log did not acknowledge the write, which may be stored or not (%v); "+
			"a retry with the same Idempotency-Key is the same write", err)
}

// refusal is the code with which the fold would reject an event now; "": it would
// not. The fold's own detail is for whoever reads its rejections.
func refusal(v *projector.View, now time.Time, e policy.Event) string {
	if r := v.WouldAccept(e, now).Rejection; r != nil {
		return r.Code
	}
	return ""
}

// settled runs check, which says from a view why nothing is to be written: the
// request must fail, or changes nothing. A worker may lag behind what its client
// did elsewhere, so before such an answer stands, the fold catches up with the
// log's head as it is now.
func (p *plane) settled(c *call, check func(v *projector.View) error) error {
	var err error
	p.Model.Read(func(v *projector.View) { err = check(v) })
	if err == nil {
		return nil
	}
	if lag := p.catchUp(c, 0); lag != nil {
		return lag
	}
	p.Model.Read(func(v *projector.View) { err = check(v) })
	return err
}

// catchUp waits until the fold has passed sequence seq, or, when that is 0,
// the log's head as it is now. Who would write hears at once that nothing is
// written now, where that is so: on a full disk the fold may stand still, too.
func (p *plane) catchUp(c *call, seq uint64) error {
	if fault.Always(fault.StaleRead) {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), p.ReadPatience)
	defer cancel()
	if seq == 0 {
		head, err := p.Log.Head(ctx)
		if err != nil {
			if refused := p.refusing(c); refused != nil {
				return refused
			}
			return problem(http.StatusServiceUnavailable, CodeLogUnavailable,
				"the log's head cannot be read, so what is here may be old: %v", err)
		}
		p.Metrics.sawHead(head)
		seq = head
	}
	if p.Model.Applied() >= seq {
		return nil
	}
	if refused := p.refusing(c); refused != nil {
		return refused
	}
	if err := p.Model.Wait(ctx, seq); err != nil {
		return behind(seq, p.Model.Applied())
	}
	return nil
}

// refusing is why a request that would write cannot; a request that reads may.
func (p *plane) refusing(c *call) error {
	if !c.route.writes() {
		return nil
	}
	return p.writable()
}

// begun keeps back what a route would say of a read model that lacks what the
// log held when the worker started: it would be of a smaller world, or of none.
func (p *plane) begun(c *call) error {
	if c.route.early || p.Model.Applied() >= p.Held {
		return nil
	}
	if p.Damaged != nil {
		if err := p.Damaged(); err != nil {
			return problem(http.StatusServiceUnavailable, CodeLogUnavailable,
				"the log is damaged, and this worker has folded it up to %d of %d: %v", p.Model.Applied(), p.Held, err)
		}
	}
	return p.catchUp(c, p.Held)
}

// recentWrites remembers the last keyed writes by event id. It answers a retry
// whose traces are gone from the read model, such as a deletion's. Losing it
// costs such a retry its first answer, nothing else.
type recentWrites struct {
	mu     sync.Mutex
	writes map[uuid.UUID]recentWrite
	ring   []uuid.UUID
	next   int
}

type recentWrite struct {
	seq     uint64
	created bool // the answer was 201
}

func newRecentWrites(n int) *recentWrites {
	return &recentWrites{writes: map[uuid.UUID]recentWrite{}, ring: make([]uuid.UUID, n)}
}

func (r *recentWrites) put(event uuid.UUID, w recentWrite) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.writes[event]; known {
		return
	}
	delete(r.writes, r.ring[r.next])
	r.ring[r.next] = event
	r.writes[event] = w
	r.next = (r.next + 1) % len(r.ring)
}

func (r *recentWrites) forget(event uuid.UUID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.writes, event)
}

func (r *recentWrites) get(event uuid.UUID) (w recentWrite, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w, ok = r.writes[event]
	return w, ok
}
