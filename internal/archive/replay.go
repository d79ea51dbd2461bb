package archive

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
)

// A fold takes events in batches, at most so many, or bytes of them.
const (
	batchEvents = 1000
	batchBytes  = 2 << 20
)

// State implements snapshot.Log: what the archive has of the log. It reads all of
// it once, so that nothing is folded of one that has a fault.
func (a *Archive) State(ctx context.Context) (streams.State, error) {
	e, err := a.Extent(ctx)
	return streams.State{First: e.First, Last: e.Last, Messages: e.Last + 1 - e.First}, err
}

// Follow implements snapshot.Log. It ends behind the last event.
func (a *Archive) Follow(ctx context.Context, from uint64) iter.Seq2[[]streams.Message, error] {
	return func(yield func([]streams.Message, error) bool) {
		var batch []streams.Message
		size := 0
		for m, err := range a.Messages(from) {
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			batch, size = append(batch, m), size+m.Size()
			if len(batch) == batchEvents || size >= batchBytes {
				if !yield(batch, nil) {
					return
				}
				batch, size = nil, 0
			}
		}
		if len(batch) > 0 {
			yield(batch, nil)
		}
	}
}

// StoreOptions are for a read model that is folded from the archive, which must have
// the log from its first event on, or from an origin: *FaultError.
func (a *Archive) StoreOptions(ctx context.Context) (projector.Options, error) {
	e, err := a.Whole(ctx)
	if err != nil {
		return projector.Options{}, err
	}
	created, err := created(e.Log)
	return projector.Options{Partitions: e.Partitions, Created: created, First: e.Begins, Base: e.Base}, err
}

// Whole is the extent of an archive that begins where its log did, or at an origin that it
// has: *FaultError.
func (a *Archive) Whole(ctx context.Context) (Extent, error) {
	e, err := a.Extent(ctx)
	if err == nil {
		err = a.whole(e)
	}
	return e, err
}

// whole says whether all of its log follows from the archive.
func (a *Archive) whole(e Extent) error {
	if e.First == e.Begins {
		return nil
	}
	if _, ok, err := a.Origin(); ok || err != nil {
		return err
	}
	return &FaultError{File: a.at.String(), Detail: fmt.Sprintf("the archive begins at %d, its log at %d: what came before is needed, too", e.First, e.Begins), Final: true}
}

// Get is an event of the archive; streams.ErrNotFound: it has none of that sequence.
func (a *Archive) Get(_ context.Context, seq uint64) (streams.Message, error) {
	for m, err := range a.Messages(seq) {
		if err == nil && m.Seq != seq {
			break
		}
		return m, err
	}
	return streams.Message{}, streams.ErrNotFound
}

// Created is when the log was made, by its server's clock.
func (e Extent) Created() time.Time {
	t, _ := created(e.Log) // a header says it
	return t
}
