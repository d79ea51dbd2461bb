package snapshot

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/gen"
)

// past is a History of a log in memory that counts the folds which began at no mark.
func past(t *testing.T, log *sliceLog, dir string, set func(*HistoryOptions)) (h *History, began *atomic.Int64) {
	began = new(atomic.Int64)
	opt := HistoryOptions{
		Dir: dir, Every: 7, Marks: 3,
		Nearest: func(context.Context, uint64) (Beginning, error) {
			return Beginning{Begin: func(_ context.Context, dir string, _ uint64) (*Replayed, error) {
				began.Add(1)
				return Begin(log, dir, options)
			}}, nil
		},
		Open: func(ctx context.Context, dir string, _ uint64) (*Replayed, error) {
			return openVerified(ctx, log, dir, options)
		},
	}
	if set != nil {
		set(&opt)
	}
	h, err := NewHistory(opt)
	require.NoError(t, err)
	t.Cleanup(h.Close)
	return h, began
}

var pastSeeds = flag.Int("past.seeds", gen.Worlds(1), "logs whose past is asked for")

// At whatever sequence it is asked, in whatever order, from marks or without, the past is
// what a fold of the log up to there comes to.
func TestThePastIsTheFoldOfTheLogUpToIt(t *testing.T) {
	const asked = 12
	for seed := range uint64(*pastSeeds) {
		r := rand.New(rand.NewPCG(seed, 2))
		msgs := drawnHistory(t, r, 40)
		want := make([]projector.Digest, len(msgs)+1)
		live := openStore(t)
		for seq := range want {
			if seq > 0 {
				require.NoError(t, live.Apply(msgs[seq-1:seq]))
			}
			var err error
			want[seq], err = live.Digest(t.Context())
			require.NoError(t, err)
		}
		log := &sliceLog{msgs: msgs, cut: 5}
		dir := t.TempDir()
		h, began := past(t, log, dir, nil)
		for range asked {
			seq := r.Uint64N(uint64(len(want)))
			m, done, err := h.At(t.Context(), seq)
			require.NoError(t, err)
			require.Equal(t, seq, m.Seq)
			got, err := m.Store.Digest(t.Context())
			require.NoError(t, err)
			require.Equal(t, want[seq], got, "seed %d at %d", seed, seq)
			done()
			require.LessOrEqual(t, len(h.marks.seqs), 3)
			left, err := filepath.Glob(filepath.Join(dir, "open-*"))
			require.NoError(t, err)
			require.LessOrEqual(t, len(left), 2, "few are open")
		}
		require.Less(t, began.Load(), int64(asked), "some began at a mark")
		h.Close()
		again, whole := past(t, log, dir, nil)
		_, done, err := again.At(t.Context(), uint64(len(msgs)))
		require.NoError(t, err)
		done()
		require.Zero(t, whole.Load(), "the marks are there after a restart")
	}
}

// A fold of the past that fills the disk has no room there, and gives back what it took.
func TestAFoldOfThePastThatFillsTheDiskGivesItBack(t *testing.T) {
	dir := t.TempDir()
	h, _ := past(t, &sliceLog{}, dir, func(opt *HistoryOptions) {
		opt.Nearest = func(context.Context, uint64) (Beginning, error) {
			return Beginning{Begin: func(_ context.Context, dir string, _ uint64) (*Replayed, error) {
				require.NoError(t, os.MkdirAll(filepath.Join(dir, "store"), 0o700))
				return nil, fmt.Errorf("write a table: %w", syscall.ENOSPC)
			}}, nil
		}
	})
	_, _, err := h.At(t.Context(), 1)
	require.ErrorIs(t, err, NoRoomError{})
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func openStore(t *testing.T) *projector.Projector {
	p, err := projector.Open(t.TempDir(), options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// A mark of another log, and one that is damaged, are removed, and the log is folded
// without them.
func TestAMarkThatCannotBeUsedGoes(t *testing.T) {
	gen.Unraced()
	for name, harm := range map[string]func(t *testing.T, dir string, log *sliceLog){
		"damaged": func(t *testing.T, dir string, _ *sliceLog) {
			manifests, err := filepath.Glob(filepath.Join(dir, "mark-*", "MANIFEST-*"))
			require.NoError(t, err)
			require.NotEmpty(t, manifests)
			for _, m := range manifests {
				require.NoError(t, os.Truncate(m, 10))
			}
		},
		"of another log": func(_ *testing.T, _ string, log *sliceLog) {
			other := nodeEvents(21)
			for i := range other {
				other[i].Time = other[i].Time.Add(time.Hour)
				other[i].Body = append([]byte(" "), other[i].Body...)
			}
			log.msgs = other
		},
		"elsewhere than it says": func(t *testing.T, dir string, _ *sliceLog) {
			require.NoError(t, os.RemoveAll(filepath.Join(dir, "mark-14")))
			require.NoError(t, os.Rename(filepath.Join(dir, "mark-7"), filepath.Join(dir, "mark-14")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			log := &sliceLog{msgs: nodeEvents(21), cut: 4}
			h, _ := past(t, log, dir, nil)
			_, done, err := h.At(t.Context(), 15)
			require.NoError(t, err)
			done()
			h.Close()
			harm(t, dir, log)
			again, began := past(t, log, dir, nil)
			m, done, err := again.At(t.Context(), 15)
			require.NoError(t, err)
			defer done()
			require.Equal(t, uint64(15), m.Store.Applied())
			require.Equal(t, int64(1), began.Load())
		})
	}
}

// While the servers of the log do not answer nobody knows whether a mark is good.
func TestAMarkStaysWhileTheLogDoesNotAnswer(t *testing.T) {
	log, silent := &sliceLog{msgs: nodeEvents(21), cut: 4}, false
	h, began := past(t, log, t.TempDir(), func(o *HistoryOptions) {
		open := o.Open
		o.Open = func(ctx context.Context, dir string, until uint64) (*Replayed, error) {
			r, err := open(ctx, dir, until)
			if silent && err == nil {
				err = errors.Join(fmt.Errorf("verify: %w", streams.ErrNoAnswer), r.Close())
			}
			return r, err
		}
	})
	at := func(seq uint64) error {
		_, done, err := h.At(t.Context(), seq)
		if err == nil {
			done()
		}
		return err
	}
	require.NoError(t, at(15))
	silent = true
	require.ErrorIs(t, at(16), streams.ErrNoAnswer)
	silent = false
	require.NoError(t, at(16))
	require.Equal(t, int64(1), began.Load())
}

// gated lets folds begin one by one.
func gated(gate <-chan struct{}, fold *sync.WaitGroup) func(*HistoryOptions) {
	return func(o *HistoryOptions) {
		nearest := o.Nearest
		o.Waiting = 4
		o.Nearest = func(ctx context.Context, seq uint64) (Beginning, error) {
			fold.Done()
			select {
			case <-gate:
				return nearest(ctx, seq)
			case <-ctx.Done():
				return Beginning{}, ctx.Err()
			}
		}
	}
}

// Who asks for the same waits for one fold; who gives up last ends it; and no more than a
// few wait.
func TestThePastIsFoldedOnceForAllWhoWaitAndForNobodyElse(t *testing.T) {
	log := &sliceLog{msgs: nodeEvents(9), cut: 4}
	gate := make(chan struct{})
	var begun, asked sync.WaitGroup
	begun.Add(1)
	h, _ := past(t, log, t.TempDir(), gated(gate, &begun))
	ask := func(ctx context.Context, seq uint64, errs *[]error, at int) {
		_, done, err := h.At(ctx, seq)
		if err == nil {
			done()
		}
		(*errs)[at] = err
	}
	errs := make([]error, 4)
	give, up := context.WithCancelCause(t.Context())
	asked.Go(func() { ask(give, 5, &errs, 0) })
	begun.Wait()
	asked.Go(func() { ask(t.Context(), 5, &errs, 1) })
	waits(t, h, 2)
	up(errors.New("enough"))
	waits(t, h, 1)
	asked.Go(func() { ask(t.Context(), 5, &errs, 2) })
	asked.Go(func() { ask(t.Context(), 6, &errs, 3) })
	waits(t, h, 3)
	more, enough := context.WithCancel(t.Context())
	defer enough()
	var seventh sync.WaitGroup
	seventh.Go(func() { _, _, _ = h.At(more, 7) })
	waits(t, h, 4)
	_, _, err := h.At(t.Context(), 8)
	var crowded *CrowdedError
	require.ErrorAs(t, err, &crowded)
	enough()
	seventh.Wait()
	begun.Add(1) // of 6; 7 never began
	close(gate)
	asked.Wait()
	require.EqualError(t, errs[0], "enough")
	require.Equal(t, []error{nil, nil, nil}, errs[1:])
	begun.Add(1)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = h.At(gone, 9)
	require.ErrorIs(t, err, context.Canceled)
	h.mu.Lock()
	defer h.mu.Unlock()
	require.Empty(t, h.passages)
	require.Zero(t, h.waiting)
}

// waits waits until so many wait.
func waits(t *testing.T, h *History, want int) {
	t.Helper()
	require.Eventually(t, func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.waiting == want
	}, 20*time.Second, time.Millisecond, fmt.Sprint(want))
}

// What nobody asks any more is closed, marks are made of the live read model as it goes on,
// and all of it makes way while the disk is almost full.
func TestThePastTakesOnlyTheRoomThatThereIs(t *testing.T) {
	log := &sliceLog{msgs: nodeEvents(40), cut: 4}
	live, room, dir := openStore(t), true, t.TempDir()
	begins := uint64(1)
	h, began := past(t, log, dir, func(o *HistoryOptions) {
		o.Live, o.Room, o.Begins = live, func() bool { return room }, func() uint64 { return begins }
	})
	now := time.Now()
	h.tend(now)
	require.Empty(t, h.marks.seqs, "nothing was folded")
	for to := range uint64(8) {
		require.NoError(t, live.Apply(log.msgs[to*5:to*5+5]))
		h.tend(now)
	}
	require.Len(t, h.marks.seqs, 3)
	require.Equal(t, uint64(40), h.marks.seqs[2])
	m, done, err := h.At(t.Context(), 40)
	require.NoError(t, err)
	require.Zero(t, began.Load())
	h.tend(now.Add(time.Hour))
	require.Len(t, h.open, 1, "it is used")
	require.Equal(t, uint64(40), m.Store.Applied())
	done()
	h.tend(time.Now().Add(time.Hour))
	require.Empty(t, h.open)
	begins = h.marks.seqs[1]
	h.tend(now)
	require.Len(t, h.marks.seqs, 2, "the log begins later now")
	room = false
	h.tend(now)
	require.Empty(t, h.marks.seqs)
	_, _, err = h.At(t.Context(), 30)
	require.ErrorIs(t, err, NoRoomError{})
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}
