package relay

import (
	"context"
	"errors"
	"fmt"

	"github.com/edictdev/edict/streams"
)

// nobody is the owner in a fence that takes a partition from whoever has it,
// for whoever announces it next: it asks for a sync. It stands for a process
// that began one and ended before it told anything, so that what the protocol
// says of a takeover during a sync holds of it too.
const nobody = ""

// lostTo says what to do with a partition whose fence is another's: one that
// nobody holds is taken anew at once.
func lostTo(f Fence) outcome {
	if f.Owner == nobody {
		return open
	}
	return contested
}

// Asked is a partition that Republish has asked a sync of. It is done once the
// partition's mode is Follow under an epoch above Epoch.
type Asked struct {
	Partition int
	Epoch     uint64
}

// Republish has the node stream compared with the rows, partition by
// partition, by whichever process announces each, and the differences
// announced. It returns when all are asked. A partition that was never taken
// is left out: its first owner compares it anyway. The error is a
// *NotReadyError before the stream is open.
func (r *Relay) Republish(ctx context.Context) ([]Asked, error) {
	h := r.hub.Load()
	if h == nil {
		return nil, &NotReadyError{"the node stream is not open yet"}
	}
	every := make([]int, r.opt.Partitions)
	for id := range every {
		every[id] = id
	}
	return r.askSyncs(ctx, h.stream, every)
}

func (r *Relay) askSyncs(ctx context.Context, stream Stream, ids []int) (asked []Asked, err error) {
	for _, id := range ids {
		epoch, err := askSync(ctx, stream, r.logID, id, r.opt.Partitions)
		if err != nil {
			return nil, fmt.Errorf("ask for a sync of partition %d: %w", id, err)
		}
		if epoch > 0 {
			asked = append(asked, Asked{id, epoch})
		}
	}
	return asked, nil
}

// askSync asks until the partition's fence, which moves as its owner announces,
// says so. epoch 0: there is none.
func askSync(ctx context.Context, stream Stream, logID string, id, partitions int) (epoch uint64, err error) {
	for pause := backoffLeast; ; pause = min(2*pause, backoffMost) {
		epoch, err = askOnce(ctx, stream, logID, id, partitions)
		moved := errors.Is(err, streams.ErrWrongSequence) || errors.Is(err, streams.ErrDuplicate)
		switch {
		case err == nil || ctx.Err() != nil, !moved && !errors.Is(err, streams.ErrUnknown) && !notStored(err):
			return epoch, err
		case moved:
			pause = backoffLeast
		}
		sleep(ctx, pause)
	}
}

// askOnce puts a fence of nobody's in place of the one that stands.
func askOnce(ctx context.Context, stream Stream, logID string, id, partitions int) (epoch uint64, err error) {
	fences, err := lastFences(ctx, stream, partitions)
	if err != nil {
		return 0, err
	}
	f := fences[id]
	switch {
	case f.Seq == 0 || f.Log != logID:
		return 0, nil
	case f.Owner == nobody:
		return f.Epoch, nil // asked already
	}
	// Below everything of its sequence: what an earlier sync told up to there
	// says nothing about the one to come.
	ask := Fence{Log: logID, Owner: nobody, Epoch: f.Epoch + 1, Mode: Sync, After: Key{Seq: f.After.Seq}}
	_, err = stream.PublishBatch(ctx, []streams.Outgoing{{
		Subject: streams.FenceSubject(id), Body: ask.Body(), Expect: f.Seq, HasExpect: true, MsgID: ask.MsgID(id),
	}})
	return ask.Epoch, err
}
