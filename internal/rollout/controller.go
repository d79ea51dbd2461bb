package rollout

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/backoff"
	"github.com/edictdev/edict/internal/convergence"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// Model is what is asked of the read model; *projector.Projector is one.
type Model interface {
	Read(f func(v *projector.View))
	Changed() <-chan struct{}
	Verdict(ctx context.Context, seq uint64) (projector.Verdict, error)
}

// Reports say what nodes report; *convergence.Tracker is one.
type Reports interface {
	Reached(ctx context.Context, project, id uuid.UUID) (r convergence.Reached, ok bool, err error)
	Moved() <-chan struct{}
}

// Log takes events; *streams.Log is one.
type Log interface {
	Publish(ctx context.Context, a streams.Append) (seq uint64, duplicate bool, err error)
}

// Metrics counts what this process did to rollouts.
type Metrics interface {
	// RolloutMoved notes an event of this process that the fold accepted, by its
	// type.
	RolloutMoved(event string)
}

// Options are what a Controller works on. All are required.
type Options struct {
	Model   Model
	Reports Reports
	Log     Log
	// Due reports whether this process is to act now: one of the workers should.
	Due     func() bool
	Metrics Metrics
	Logger  *slog.Logger
	Clock   func() time.Time
}

// Controller opens and stops waves. Run runs it.
type Controller struct {
	opt  Options
	log  *slog.Logger
	held map[uuid.UUID]hold // rollouts of which the log says that they are held up, by policy
	// waited is how long a look waited for the log and the fold.
	waited time.Duration
}

// hold is what is known of a rollout that its project's quota holds up.
type hold struct {
	revision uuid.UUID
	until    time.Time // no wave is appended before
}

// New makes a controller that has looked at nothing.
func New(opt Options) *Controller {
	return &Controller{opt: opt, log: opt.Logger, held: map[uuid.UUID]hold{}}
}

const (
	// leastPause is between two looks, however much happens. A look that took long is
	// followed by a pause of shareOfTime times as much.
	leastPause  = 100 * time.Millisecond
	shareOfTime = 9
	// retry is when rollouts are looked at again though nothing seems to have happened:
	// another worker has ended, or an event could not be appended. So long no wave is
	// appended that the fold just refused for the quota of its project.
	retry = 5 * time.Second
	// patience is for one event.
	patience = 10 * time.Second
)

// Run acts whenever something is folded or reported while a rollout is under way,
// until ctx ends. What goes wrong is tried again, and ends nothing else.
func (c *Controller) Run(ctx context.Context) error {
	for {
		changed, moved := c.opt.Model.Changed(), c.opt.Reports.Moved()
		began := c.opt.Clock()
		again := time.NewTimer(retry)
		if !c.look(ctx) {
			again.Stop()
			moved = nil // there is nothing to hear of
		}
		_ = backoff.Sleep(ctx, c.pause(began))
		select {
		case <-changed:
		case <-moved:
		case <-again.C:
		case <-ctx.Done():
		}
		again.Stop()
		if ctx.Err() != nil {
			return nil
		}
	}
}

// pause is what follows a look that began then. What it waited for its events costs nobody
// anything: an append that fails after ten seconds would leave a minute and a half in which
// nothing stops a rollout.
func (c *Controller) pause(began time.Time) time.Duration {
	worked := c.opt.Clock().Sub(began) - c.waited
	c.waited = 0
	return max(leastPause, shareOfTime*worked)
}

// look acts on every rollout that is under way and has not stopped; some is false
// when there is none.
func (c *Controller) look(ctx context.Context) (some bool) {
	var all []projector.PolicyRef
	c.opt.Model.Read(func(v *projector.View) { all = projector.RolloutsIn(v, projector.RolloutUnderWay) })
	c.forget(all)
	if len(all) == 0 || !c.opt.Due() {
		return len(all) > 0
	}
	for _, p := range all {
		err := c.move(ctx, p)
		var early *convergence.NotReadyError
		switch {
		case ctx.Err() != nil:
			return true
		case errors.As(err, &early): // until then nobody knows what a wave came to
			return true
		case err != nil:
			c.log.Warn("a rollout cannot be moved; trying again", "policy", p.Policy, "error", err)
		}
	}
	return true
}

// move does what follows for one rollout.
func (c *Controller) move(ctx context.Context, p projector.PolicyRef) error {
	r, ok, err := c.opt.Reports.Reached(ctx, p.Project, p.Policy)
	if !ok || err != nil {
		return err
	}
	d := Decide(r)
	e := event(p, r.Rollout, d)
	if e == nil {
		return nil
	}
	if c.holdsUp(p, r.Rollout, d) {
		return nil
	}
	v, err := c.append(ctx, e)
	switch {
	case errors.Is(err, projector.ErrForgotten):
		return nil // it was appended long ago
	case err != nil:
		return err
	case lacksRoom(v): // others took it between the look and the append
		c.waits(p, r.Rollout, v.Rejection.Detail, c.opt.Clock().Add(retry))
		return nil
	case v.Rejection != nil:
		c.log.Info("a rollout has gone on otherwise", "policy", p.Policy, "detail", v.Rejection.Detail)
	case !v.Duplicate:
		c.opt.Metrics.RolloutMoved(e.EventType())
		c.tell(p, len(r.Rollout.Opened), d)
	}
	delete(c.held, p.Policy)
	return nil
}

// append appends an event, and waits for the fold's verdict on it. Where the log has it from a
// time when the project had no room, it is appended once more: for two minutes the log would
// take it for a repeat, and drop it.
func (c *Controller) append(ctx context.Context, e policy.Event) (projector.Verdict, error) {
	began := c.opt.Clock()
	defer func() { c.waited += c.opt.Clock().Sub(began) }()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for a := (streams.Append{Event: e}); ; a.Again = true {
		seq, repeat, err := c.opt.Log.Publish(ctx, a)
		if err != nil {
			return projector.Verdict{}, err
		}
		v, err := c.opt.Model.Verdict(ctx, seq)
		if err != nil || !repeat || a.Again || !lacksRoom(v) {
			return v, err
		}
	}
}

// lacksRoom reports whether the fold refused an event because its project may add no more now.
func lacksRoom(v projector.Verdict) bool {
	return v.Rejection != nil && v.Rejection.Code == projector.CodeQuotaExceeded
}

// holdsUp reports whether the quota of its project holds a rollout up, and says so once. What
// the fold would reject is not appended: it would take of the log at each look. So would what it
// just rejected though it would take it by the clock here, which may be ahead of the log's.
func (c *Controller) holdsUp(p projector.PolicyRef, r projector.Rollout, d Decision) bool {
	if h := c.held[p.Policy]; d.Act == Open && h.revision == r.Revision && c.opt.Clock().Before(h.until) {
		return true
	}
	why := ""
	c.opt.Model.Read(func(v *projector.View) { why = Held(v, p, r, d, c.opt.Clock()) })
	if why == "" {
		return false
	}
	c.waits(p, r, why, time.Time{})
	return true
}

// waits says once that the quota of its project holds a rollout up; before until no wave is appended.
func (c *Controller) waits(p projector.PolicyRef, r projector.Rollout, why string, until time.Time) {
	before := c.held[p.Policy].revision
	c.held[p.Policy] = hold{r.Revision, until}
	if before != r.Revision {
		c.log.Warn("a rollout waits for its project's quota", "policy", p.Policy, "wave", len(r.Opened), "detail", why)
	}
}

// forget forgets what it said of rollouts that are under way no more.
func (c *Controller) forget(underWay []projector.PolicyRef) {
	held := make(map[uuid.UUID]hold, len(c.held))
	for _, p := range underWay {
		if h, ok := c.held[p.Policy]; ok {
			held[p.Policy] = h
		}
	}
	c.held = held
}

// Held says why the fold does not take now what a decision asks for, though the gate is met:
// the quota of the project; "": it does.
func Held(v *projector.View, p projector.PolicyRef, r projector.Rollout, d Decision, now time.Time) string {
	e := event(p, r, d)
	if e == nil {
		return ""
	}
	if x := v.WouldAccept(e, now).Rejection; x != nil && x.Code == projector.CodeQuotaExceeded {
		return x.Detail
	}
	return ""
}

// tell logs what was done after a wave.
func (c *Controller) tell(p projector.PolicyRef, wave int, d Decision) {
	log := c.log.With("policy", p.Policy, "wave", wave, "detail", d.Why)
	if d.Act == Stop {
		log.Warn("a rollout has stopped")
		return
	}
	log.Info("the gate of a wave is met; the next one is open")
}

// event is what a decision appends; nil: nothing.
func event(p projector.PolicyRef, r projector.Rollout, d Decision) policy.Event {
	wave := uint8(len(r.Opened)) //nolint:gosec // a few
	switch d.Act {
	case Open:
		e := policy.WaveOpened{Project: p.Project, Policy: p.Policy, Revision: r.Revision, Wave: wave + 1, Gated: true}
		e.ID = eventID(e, r)
		return e
	case Stop:
		e := policy.RolloutStopped{Project: p.Project, Policy: p.Policy, Revision: r.Revision, Wave: wave, Reason: d.Why}
		e.ID = eventID(e, r)
		return e
	}
	return nil
}
