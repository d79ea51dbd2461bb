package api

import (
	"context"
	"net/http"
	"time"

	"github.com/edictdev/edict/internal/fault"
	"github.com/edictdev/edict/internal/projector"
)

// views reads the model as it is at one moment.
type views interface {
	Read(f func(v *projector.View))
}

// reads waits for the fold where an answer would be older than what its client
// knows: clients read their own writes, also those that they made on another
// worker.
type reads struct {
	log interface {
		Head(ctx context.Context) (uint64, error)
	}
	model interface {
		views
		Applied() uint64
		Wait(ctx context.Context, seq uint64) error
	}
	gate     *writeGate
	metrics  *Metrics
	patience time.Duration
	held     uint64 // the log's last sequence when the worker started
}

// check runs a check that returns an error where the request must fail or
// changes nothing. The client may have written over another worker, which this
// one has not folded yet. So an error counts only if the check returns it again
// after the fold has caught up with the log's head.
func (r *reads) check(c *call, check func(v *projector.View) error) error {
	var err error
	r.model.Read(func(v *projector.View) { err = check(v) })
	if err == nil {
		return nil
	}
	if lag := r.catchUp(c, 0); lag != nil {
		return lag
	}
	r.model.Read(func(v *projector.View) { err = check(v) })
	return err
}

// catchUp waits until the fold has passed sequence seq, or, when that is 0,
// the log's head as it is now. A request that would write is refused at once
// while the plane takes no writes: on a full disk the fold may stand still, too.
func (r *reads) catchUp(c *call, seq uint64) error {
	if fault.Always(fault.StaleRead) {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), r.patience)
	defer cancel()
	if seq == 0 {
		head, err := r.log.Head(ctx)
		if err != nil {
			if refused := r.refusing(c); refused != nil {
				return refused
			}
			return problem(http.StatusServiceUnavailable, CodeLogUnavailable,
				"the log's head cannot be read, so what is here may be old: %v", err)
		}
		r.metrics.sawHead(head)
		seq = head
	}
	if r.model.Applied() >= seq {
		return nil
	}
	if refused := r.refusing(c); refused != nil {
		return refused
	}
	if err := r.model.Wait(ctx, seq); err != nil {
		return behind(seq, r.model.Applied())
	}
	return nil
}

// refusing returns why a request that would write cannot; one that only reads
// always may.
func (r *reads) refusing(c *call) error {
	if !c.route.writes() {
		return nil
	}
	return r.gate.check()
}

// afterStart makes a request wait until the fold has passed what the log held
// when the worker started. An answer before that would leave out a part of it.
func (r *reads) afterStart(c *call) error {
	if c.route.early || r.model.Applied() >= r.held {
		return nil
	}
	if r.gate.damaged != nil {
		if err := r.gate.damaged(); err != nil {
			return problem(http.StatusServiceUnavailable, CodeLogUnavailable,
				"the log is damaged, and this worker has folded it up to %d of %d: %v", r.model.Applied(), r.held, err)
		}
	}
	return r.catchUp(c, r.held)
}

// fresh waits until the read model shows what was in the log when the request
// came, or min_seq when the client knows what it waits for. Nodes never get an
// older answer.
func (r *reads) fresh(c *call) error {
	minSeq, err := c.queryUint("min_seq", 0)
	if err != nil {
		return err
	}
	return r.catchUp(c, minSeq)
}
