package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/edictdev/edict/internal/backoff"
	"github.com/edictdev/edict/internal/fault"
	"github.com/edictdev/edict/internal/streams"
)

// lease is the key of this process in the bucket.
type lease struct {
	leases   Leases
	key      string
	ttl      time.Duration
	revision uint64 // of the last known renewal; 0: not known
}

// write renews the lease, or makes it. A renewal whose answer was lost is found
// by reading the key.
func (l *lease) write(ctx context.Context, value []byte) (err error) {
	ctx, cancel := context.WithTimeout(ctx, l.ttl/3)
	defer cancel()
	current := l.revision
	l.revision = 0 // until it is answered
	if current == 0 {
		_, current, err = l.leases.Get(ctx, l.key)
		if errors.Is(err, streams.ErrNotFound) {
			l.revision, err = l.leases.Create(ctx, l.key, value, l.ttl)
			return err
		}
		if err != nil {
			return err
		}
	}
	l.revision, err = l.leases.Update(ctx, l.key, value, current, l.ttl)
	return err
}

// end gives the lease up by writing a last value. It does not delete the key: a
// watcher might then see only the deletion, and not the value before it.
func (l *lease) end(ctx context.Context, last []byte) {
	const grace = time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if l.revision != 0 {
		_ = l.write(ctx, last) // it ends by itself if this fails
	}
}

// pollInterval is how often a worker checks whether what it says of itself has
// changed in a way that the others should learn at once: often while it starts.
func pollInterval(since time.Duration) time.Duration {
	const often, seldom, start = 10 * time.Millisecond, 250 * time.Millisecond, 30 * time.Second
	if since < start {
		return often
	}
	return seldom
}

// keep renews the lease every third of its time to live, and at once when the
// partitions or the key of this process change. It returns an error when that has
// failed for so long that the bucket itself may be gone.
func (w *Workers) keep(ctx context.Context, leases Leases) error {
	l := &lease{leases: leases, key: w.opt.Owner, ttl: w.opt.TTL}
	defer func() {
		self := w.Self()
		self.Over = true
		last, _ := json.Marshal(self) // renew reports a value that cannot be marshalled
		l.end(ctx, last)
	}()
	first := time.Now()
	var due, failing time.Time
	var written Worker
	again := backoff.Steady(leaseRetry)
	for ctx.Err() == nil {
		self := w.Self()
		now := time.Now()
		if now.Before(due) && self.Shares == written.Shares && self.Signs == written.Signs && slices.Equal(self.Partitions, written.Partitions) {
			_ = backoff.Sleep(ctx, min(pollInterval(now.Sub(first)), due.Sub(now)))
			continue
		}
		err := w.renew(ctx, l, self, now)
		switch {
		case err == nil:
			written, due, failing = self, now.Add(w.opt.TTL/3), time.Time{}
		case ctx.Err() != nil:
			return nil
		case failing.IsZero():
			failing = now
		case now.Sub(failing) > w.opt.TTL:
			return fmt.Errorf("renew the lease of this worker: %w", err)
		}
		if err != nil {
			w.opt.Log.Debug("the lease could not be renewed; trying again", "error", err)
			_ = again.Pause(ctx)
		}
	}
	return nil
}

// renew writes the lease. sent is the time before it was written: the server counts
// the time to live from a later one.
func (w *Workers) renew(ctx context.Context, l *lease, self Worker, sent time.Time) error {
	value, err := json.Marshal(self)
	if err != nil {
		return err
	}
	fault.Pass(fault.LeaseBefore)
	if err := l.write(ctx, value); err != nil {
		return err
	}
	fault.Pass(fault.LeaseAfter)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.holdsLocked(sent) {
		w.joined = l.revision
		w.ageLocked()
	}
	w.renewed = sent
	w.reviewLocked(time.Now())
	w.wake()
	return nil
}
