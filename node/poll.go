package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/edictdev/edict/artifact"
)

// UnreadableError means that events over SSE cannot be read: they have another form
// than requested, or times of another clock. The state is pulled instead.
type UnreadableError struct{ Err error }

// Error says what to look at.
func (e *UnreadableError) Error() string {
	return fmt.Sprintf("the plane's events cannot be read, so its state is polled: %v; the plane or what stands between may be older than this client, or one of the clocks is wrong", e.Err)
}

// Unwrap is what was found.
func (e *UnreadableError) Unwrap() error { return e.Err }

// unreadable reports whether streams ended so often with something unreadable that the
// state is polled instead. An event that can be read but does not verify is not a case
// of this: whoever made it would answer the polls too.
func (f *Follower) unreadable(err error) bool {
	var r *refusal
	if f.opt.NATS != "" || !errors.As(err, &r) {
		return false
	}
	for _, kind := range []error{artifact.ErrMalformed, artifact.ErrUnsigned, artifact.ErrStale, artifact.ErrFuture} {
		if errors.Is(err, kind) {
			return f.polling || f.refused+1 >= refusals
		}
	}
	return false
}

// poll pulls the state in place of events. It returns why the stream is not read, or
// why the state could not be pulled.
func (f *Follower) poll(ctx context.Context, why error, yield func(Event, error) bool) error {
	f.polling = true
	before := f.Merged().Fingerprint
	s, err := f.puller(ctx)
	if err != nil {
		return err
	}
	f.take(s)
	f.cursor.Store(uint64(max(f.seen, f.pulled)))
	if err := f.save(); err != nil {
		return err
	}
	if !f.artifacts && f.Merged().Fingerprint != before && !yield(Event{ID: s.ID, Type: TypeStateUpdated, Pulled: &s}, nil) {
		return errStopped
	}
	return &UnreadableError{why}
}

// eventRead notes that an event was read and verified.
func (f *Follower) eventRead() {
	f.refused = 0
	if f.polling {
		f.polling = false
		f.opened()
	}
}
