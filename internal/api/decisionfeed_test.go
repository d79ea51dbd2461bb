package api

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/streams"
)

// feedLog is a decision log of which only what is followed counts.
type feedLog struct {
	DecisionLog
	came     chan []streams.Message // closed: it cannot be followed any more
	followed []uint64               // from where
	running  int
}

func (l *feedLog) Follow(ctx context.Context, from uint64) iter.Seq2[[]streams.Message, error] {
	l.followed = append(l.followed, from)
	return func(yield func([]streams.Message, error) bool) {
		l.running++
		defer func() { l.running-- }()
		for {
			select {
			case batch, ok := <-l.came:
				if !ok {
					yield(nil, errors.New("gone"))
					return
				}
				if !yield(batch, nil) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

func (l *feedLog) add(seqs ...uint64) {
	var batch []streams.Message
	for _, seq := range seqs {
		batch = append(batch, streams.Message{Seq: seq, Body: fmt.Appendf(nil, `{"decision_id":"d%d"}`, seq)})
	}
	l.came <- batch
	synctest.Wait()
}

// keptBehind is what there is behind a sequence.
func keptBehind(t *testing.T, x *following, seq uint64) (seqs []uint64, at, floor uint64) {
	t.Helper()
	found, at, floor, _, err := x.after(seq)
	require.NoError(t, err)
	for _, d := range found {
		seqs = append(seqs, d.Seq)
	}
	return seqs, at, floor
}

func TestTheDecisionLogIsFollowedOnceForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &feedLog{came: make(chan []streams.Message)}
		f := &decisionFeed{log: log, window: 50}
		a := f.join(7)
		_, _, _, more, err := a.after(7)
		require.NoError(t, err)
		log.add(8, 9)
		<-more
		b := f.join(9)
		require.Same(t, a, b)
		seqs, at, _ := keptBehind(t, b, 8)
		require.Equal(t, []uint64{9}, seqs)
		require.Equal(t, uint64(9), at)
		_, _, floor := keptBehind(t, b, 6)
		require.Equal(t, uint64(7), floor, "what came before it was followed is read from the log")
		log.add(12) // what lies between was dropped from the log
		seqs, at, floor = keptBehind(t, b, 8)
		require.Equal(t, []uint64{9, 12}, seqs)
		require.Equal(t, uint64(12), at)
		require.Zero(t, floor)
		_, at, _ = keptBehind(t, b, 20)
		require.Equal(t, uint64(20), at, "who is ahead stays there")

		a.leave()
		require.Equal(t, 1, log.running, "somebody is there")
		b.leave()
		require.Zero(t, log.running, "nothing of it runs when the last has left")
		c := f.join(30)
		defer c.leave()
		synctest.Wait()
		require.Equal(t, []uint64{8, 31}, log.followed)
	})
}

func TestWhoReadsDecisionsSlowlyCostsNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &feedLog{came: make(chan []streams.Message)}
		f := &decisionFeed{log: log, window: 50} // two decisions
		x := f.join(0)
		defer x.leave()
		for seq := range uint64(10) {
			log.add(seq + 1)
		}
		require.Len(t, x.kept, 2)
		_, _, floor := keptBehind(t, x, 0)
		require.Equal(t, uint64(8), floor)
		seqs, _, _ := keptBehind(t, x, floor)
		require.Equal(t, []uint64{9, 10}, seqs)
		log.add(11, 12, 13, 14)
		require.Len(t, x.kept, 2, "of a large batch, too")
	})
}

func TestAFeedThatEndsLetsNobodyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &feedLog{came: make(chan []streams.Message)}
		f := &decisionFeed{log: log}
		x := f.join(0)
		_, _, _, more, _ := x.after(0)
		close(log.came)
		<-more
		_, _, _, _, err := x.after(0)
		require.ErrorContains(t, err, "gone")
		log.came = make(chan []streams.Message)
		y := f.join(3)
		require.NotSame(t, x, y, "who comes next begins again")
		x.leave()
		log.add(4)
		seqs, _, _ := keptBehind(t, y, 3)
		require.Equal(t, []uint64{4}, seqs)
		y.leave()
		require.Zero(t, log.running)
	})
}
