package snapshot

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// working takes turns of a project and notes, in slices, whose worker it was.
type working struct {
	t     *testing.T
	turns *turns
	seen  []byte // the project's letter, a slice each
}

func (w *working) do(ctx context.Context, project byte, slices int) error {
	turn, err := w.turns.begin(ctx, uuid.UUID{project})
	if err != nil {
		return err
	}
	defer turn.end()
	for range slices {
		w.seen = append(w.seen, project) // one worker: no two at a time
		for range slice {
			if err := turn.proceed(); err != nil {
				return err
			}
		}
	}
	return nil
}

// A project that asks for much waits for itself: another's table is made beside
// it, slice by slice, however many of the first one's wait.
func TestProjectsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &working{t: t, turns: newTurns(1)}
		hold, err := w.turns.beside(t.Context()) // until all wait
		require.NoError(t, err)
		for range 5 {
			go func() { assertNil(t, w.do(t.Context(), 'a', 4)) }()
			synctest.Wait()
		}
		for _, p := range "bc" {
			go func() { assertNil(t, w.do(t.Context(), byte(p), 2)) }()
			synctest.Wait()
		}
		hold.end()
		synctest.Wait()
		require.Equal(t, "abcabc"+"aaaaaaaaaaaaaaaaaa", string(w.seen))
		require.Equal(t, 1, w.turns.idle)
		require.Equal(t, perWorker, w.turns.starts)
		require.Empty(t, w.turns.ring)
		require.Empty(t, w.turns.waiting)
		require.Empty(t, w.turns.making)
	})
}

func assertNil(t *testing.T, err error) {
	if err != nil {
		t.Error(err)
	}
}

// Whoever gives up leaves the queue where he stands, and his turn to the next.
func TestWhoGivesUpLeavesHisTurnToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &working{t: t, turns: newTurns(1)}
		hold, err := w.turns.beside(t.Context())
		require.NoError(t, err)
		gone := errors.New("gone")
		var cancels []context.CancelCauseFunc
		results := make([]error, 4)
		for i := range results { // the first waits for the worker, the others for the first
			ctx, cancel := context.WithCancelCause(t.Context())
			cancels = append(cancels, cancel)
			go func() { results[i] = w.do(ctx, 'a', 1) }()
			synctest.Wait()
		}
		cancels[0](gone)
		synctest.Wait()
		cancels[2](gone)
		synctest.Wait()
		hold.end()
		synctest.Wait()
		for _, cancel := range cancels {
			cancel(nil)
		}
		require.Equal(t, []error{gone, nil, gone, nil}, results)
		require.Equal(t, "aa", string(w.seen))
		require.Equal(t, 1, w.turns.idle)
		require.Equal(t, perWorker, w.turns.starts)
	})
}

func TestAKeeperLetsGoOfWhatWasNotUsedForLongest(t *testing.T) {
	k := newKeeper[int, string](3 * 1256)
	for i := range 3 {
		k.put(i, "x", 1000)
	}
	_, ok := k.get(0)
	require.True(t, ok)
	k.put(3, "x", 1000)
	_, ok = k.get(1)
	require.False(t, ok)
	_, ok = k.get(0)
	require.True(t, ok)
	k.put(0, "y", 10) // in its place
	require.Equal(t, 2*1256+266, k.bytes)
	k.put(4, "z", 1<<20)
	require.Equal(t, 1<<20+256, k.bytes, "the last one stays, alone")
	require.Len(t, k.at, 1)
}
