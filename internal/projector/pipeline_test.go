package projector

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// cutLog is a log of batches that ends with err, or waits for ctx.
type cutLog struct {
	batches [][]streams.Message
	err     error
}

func (l cutLog) Follow(ctx context.Context, from uint64) iter.Seq2[[]streams.Message, error] {
	return func(yield func([]streams.Message, error) bool) {
		for _, b := range l.batches {
			if b[len(b)-1].Seq >= from && !yield(b, nil) {
				return
			}
		}
		if l.err != nil {
			yield(nil, l.err)
			return
		}
		<-ctx.Done()
	}
}

func (l cutLog) Get(_ context.Context, seq uint64) (streams.Message, error) {
	for _, b := range l.batches {
		for _, m := range b {
			if m.Seq == seq {
				return m, nil
			}
		}
	}
	return streams.Message{}, streams.ErrNotFound
}

// oneByOne is a log of n registrations, each in a batch of its own.
func oneByOne(t *testing.T, n int) (l cutLog) {
	j := &journal{}
	for i := range n {
		l.batches = append(l.batches, []streams.Message{j.add(update(t, i+1, 1, fmt.Sprintf("n%d", i), "role", "web"))})
	}
	return l
}

// TestTheFoldDoesNotWaitForTheDisk holds the disk still: the log has every event, so
// what was folded of it is shown at once.
func TestTheFoldDoesNotWaitForTheDisk(t *testing.T) {
	var still atomic.Bool
	moves := make(chan struct{})
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if still.Load() && (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData) {
			<-moves
		}
		return nil
	}))
	p, err := Open("store", Options{Partitions: testPartitions, Created: born, fs: fs})
	require.NoError(t, err)
	still.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx, oneByOne(t, 10)) }()
	require.NoError(t, p.Wait(ctx, 10))
	p.Read(func(v *View) { require.Equal(t, 10, v.Counts().Nodes) })
	cancel()
	close(moves)
	require.NoError(t, <-done)
	require.NoError(t, p.Close())
}

// TestWhatWasFoldedIsFlushedWhenTheLogIsQuiet waits for the disk to have it.
func TestWhatWasFoldedIsFlushedWhenTheLogIsQuiet(t *testing.T) {
	mem := vfs.NewCrashableMem()
	p, err := Open("store", Options{Partitions: testPartitions, Created: born, fs: mem, flush: 1})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx, oneByOne(t, 10)) }()
	require.Eventually(t, func() bool {
		again, err := Open("store", Options{Partitions: testPartitions, Created: born, fs: mem.CrashClone(vfs.CrashCloneCfg{})})
		require.NoError(t, err)
		defer func() { require.NoError(t, again.Close()) }()
		return again.Applied() == 10
	}, time.Minute, 50*time.Millisecond)
	cancel()
	require.NoError(t, <-done)
	require.NoError(t, p.Close())
}

func TestRunFoldsWhatCameBeforeAnError(t *testing.T) {
	broken := errors.New("the log is gone")
	for name, c := range map[string]struct {
		log   func(cutLog) cutLog
		fails string
		at    uint64
	}{
		"of the log": {func(l cutLog) cutLog { l.err = broken; return l }, "follow log: the log is gone", 10},
		"a hole":     {func(l cutLog) cutLog { l.batches = append(l.batches[:4], l.batches[5:]...); return l }, "log continues at 6, not at 5", 4},
		"a newer schema": {func(l cutLog) cutLog {
			l.batches[6][0].Subject = "edict.log.access.ana"
			l.batches[6][0].Header = map[string][]string{wire.HeaderDataSchema: {fmt.Sprint("edict/v", policy.NewestSchema+1)}}
			return l
		}, "run a newer binary", 6},
	} {
		t.Run(name, func(t *testing.T) {
			p := openFresh(t)
			require.ErrorContains(t, p.Run(t.Context(), c.log(oneByOne(t, 10))), c.fails)
			require.Equal(t, c.at, p.Applied())
		})
	}
}

func TestRunStopsWhenAWriteFails(t *testing.T) {
	p := openFresh(t)
	broken := errors.New("memory is ahead of the disk")
	p.failed = broken
	require.ErrorIs(t, p.Run(t.Context(), oneByOne(t, 100)), broken)
	require.Zero(t, p.Applied())
}
