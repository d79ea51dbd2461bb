package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/edictdev/edict/internal/fault"
	"github.com/edictdev/edict/internal/streams"
)

// lease is the own key in the bucket.
type lease struct {
	leases   Leases
	key      string
	ttl      time.Duration
	revision uint64 // of the last renewal known; 0: not known
}

// write renews the lease, or makes it. A renewal whose answer was lost is found
// by reading the key.
func (l *lease) write(ctx context.Context, value []byte) (err error) {
	ctx, cancel := context.WithTimeout(ctx, l.ttl/3)
	defer cancel()
	stands := l.revision
	l.revision = 0 // until it is answered
	if stands == 0 {
		_, stands, err = l.leases.Get(ctx, l.key)
		if errors.Is(err, streams.ErrNotFound) {
			l.revision, err = l.leases.Create(ctx, l.key, value, l.ttl)
			return err
		}
		if err != nil {
			return err
		}
	}
	l.revision, err = l.leases.Update(ctx, l.key, value, stands, l.ttl)
	return err
}

// end gives the lease up, with a last word. It is written, where a deletion could
// overtake the word before.
func (l *lease) end(ctx context.Context, last []byte) {
	const grace = time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if l.revision != 0 {
		_ = l.write(ctx, last) // it ends by itself if this fails
	}
}

// lookAtSelf is how often a worker looks whether it has news that the others
// should not wait for: often while it starts.
func lookAtSelf(since time.Duration) time.Duration {
	const often, seldom, start = 10 * time.Millisecond, 250 * time.Millisecond, 30 * time.Second
	if since < start {
		return often
	}
	return seldom
}

// keep renews the lease every third of its time to live, and at once when what
// this process publishes changes. It returns an error once that has failed for
// so long that the bucket itself may be gone.
func (w *Workers) keep(ctx context.Context, leases Leases) error {
	l := &lease{leases: leases, key: w.opt.Owner, ttl: w.opt.TTL}
	defer func() {
		self := w.Self()
		self.Over = true
		last, _ := json.Marshal(self) // as in renew, which says so
		l.end(ctx, last)
	}()
	first := time.Now()
	var due, failing time.Time
	var told Worker
	for ctx.Err() == nil {
		self := w.Self()
		now := time.Now()
		if now.Before(due) && self.Shares == told.Shares && self.Signs == told.Signs && slices.Equal(self.Partitions, told.Partitions) {
			sleep(ctx, min(lookAtSelf(now.Sub(first)), due.Sub(now)))
			continue
		}
		err := w.renew(ctx, l, self, now)
		switch {
		case err == nil:
			told, due, failing = self, now.Add(w.opt.TTL/3), time.Time{}
		case ctx.Err() != nil:
			return nil
		case failing.IsZero():
			failing = now
		case now.Sub(failing) > w.opt.TTL:
			return fmt.Errorf("renew the lease of this worker: %w", err)
		}
		if err != nil {
			w.opt.Log.Debug("the lease could not be renewed; trying again", "error", err)
			sleep(ctx, backoffLeast)
		}
	}
	return nil
}

// renew tells the others what this process is. sent is when it began to: the
// server counts from later on.
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
	w.hear()
	return nil
}
