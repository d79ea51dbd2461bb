package integrity

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/output"
	"github.com/edictdev/edict/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a log with its witness and a read model that folds it.
type world struct {
	*Monitor
	log  *streams.Log
	conn *streams.Conn
	fold *projector.Projector
	lead atomic.Bool
}

func newWorld(t *testing.T) *world {
	dir, quiet := t.TempDir(), slog.New(slog.DiscardHandler)
	server, err := streams.StartServer(streams.ServerOptions{Dir: filepath.Join(dir, "nats"), Relaxed: true})
	require.NoError(t, err)
	t.Cleanup(server.Close)
	w := &world{}
	w.conn, err = streams.Connect(t.Context(), streams.ConnectOptions{Server: server})
	require.NoError(t, err)
	t.Cleanup(w.conn.Close)
	w.log, err = streams.OpenLog(t.Context(), w.conn, streams.LogOptions{})
	require.NoError(t, err)
	witness, err := OpenWitness(t.Context(), w.conn, w.log, true)
	require.NoError(t, err)
	w.fold, err = projector.Open(filepath.Join(dir, "store"), projector.Options{
		Partitions: w.log.Partitions(), Created: w.log.Created(), First: w.log.First(), Base: w.log.Base(), Links: witness.Links(),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.fold.Close()) })
	w.Monitor = NewMonitor(Options{
		Alarm: NewAlarm(quiet), Witness: witness, Log: w.log, Fold: w.fold, Conn: w.conn, Leads: w.lead.Load, Every: 5 * time.Millisecond, Logger: quiet,
	})
	return w
}

// grow appends n events.
func (w *world) grow(t *testing.T, n int) {
	var all []streams.Append
	for i := range n {
		all = append(all, streams.Append{Bulk: true, Event: policy.NodeUpdated{
			ID: uuid.New(), Project: uuid.UUID{1}, Node: policy.NodeID(fmt.Sprintf("n-%d", i)),
		}})
	}
	_, err := w.log.PublishAll(t.Context(), all)
	require.NoError(t, err)
}

// run folds and watches until the test ends; ended is what Run returned.
func (w *world) run(t *testing.T) (stop context.CancelFunc, ended chan error) {
	ctx, stop := context.WithCancel(context.Background())
	ended = make(chan error, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ended <- w.Run(ctx, func(ctx context.Context) error { return w.fold.Run(ctx, w.log) })
	}()
	t.Cleanup(func() { stop(); <-done })
	return stop, ended
}

func (w *world) alarmed(t *testing.T) error {
	require.Eventually(t, func() bool { return w.opt.Alarm.Raised() != nil }, 20*time.Second, time.Millisecond)
	return w.opt.Alarm.Raised()
}

func TestTheWitnessIsLengthenedAsTheFoldMoves(t *testing.T) {
	w := newWorld(t)
	w.lead.Store(true)
	w.run(t)
	w.grow(t, 7)
	require.Eventually(t, func() bool { return w.opt.Witness.Last() == 7 }, 20*time.Second, time.Millisecond)
	require.True(t, w.Confirmed())
	require.True(t, w.Audit(t.Context()))
	require.NoError(t, w.opt.Alarm.Raised())
}

// TestWhoDoesNotLeadWritesAtItsEndAlone: as long as it runs, another does.
func TestWhoDoesNotLeadWritesAtItsEndAlone(t *testing.T) {
	w := newWorld(t)
	stop, ended := w.run(t)
	w.grow(t, 7)
	require.NoError(t, w.fold.Wait(t.Context(), 7))
	require.Zero(t, w.opt.Witness.Last())
	stop()
	require.NoError(t, <-ended)
	w.Finish(t.Context())
	require.EqualValues(t, 7, w.opt.Witness.Last())
}

// TestALinkThatDiffersEndsTheFold, and a process that nobody asks, with what the
// operator does about it.
func TestALinkThatDiffersEndsTheFold(t *testing.T) {
	w := newWorld(t)
	w.grow(t, 7)
	_, ended := w.run(t)
	require.NoError(t, w.fold.Wait(t.Context(), 7))
	chain, at, _ := w.opt.Witness.end()
	_, err := chain.Append(t.Context(), at, streams.Link{Log: w.log.ID(), Base: w.log.Base(), Seq: 7, Hash: [32]byte{1}})
	require.NoError(t, err)
	var damage *streams.DamagedError
	require.ErrorAs(t, w.alarmed(t), &damage)
	require.Equal(t, streams.DamageChanged, damage.Damage)
	require.ErrorContains(t, <-ended, "edict log verify")
	require.False(t, w.Confirmed())
}

func TestALogThatIsDeclaredPutBackEndsTheProcess(t *testing.T) {
	w := newWorld(t)
	w.grow(t, 7)
	_, ended := w.run(t)
	require.NoError(t, w.fold.Wait(t.Context(), 7))
	chain, at, _ := w.opt.Witness.end()
	head := w.fold.Head()
	head.Base, head.Restored = w.log.Base()+1, true
	_, err := chain.Append(t.Context(), at, head)
	require.NoError(t, err)
	var restored *RestoredError
	require.ErrorAs(t, <-ended, &restored)
	require.Equal(t, RestoredError{Base: w.log.Base() + 1, Was: w.log.Base()}, *restored)
	require.NoError(t, w.opt.Alarm.Raised(), "which is no damage")
}

// TestFinishReadsWhatLandedUnacknowledged: the last entry is there, and the
// process does not know.
func TestFinishReadsWhatLandedUnacknowledged(t *testing.T) {
	w := newWorld(t)
	w.grow(t, 7)
	stop, ended := w.run(t)
	require.NoError(t, w.fold.Wait(t.Context(), 7))
	stop()
	require.NoError(t, <-ended)
	w.Finish(t.Context())
	w.opt.Witness.forget(0)
	w.Finish(t.Context())
	require.EqualValues(t, 7, w.opt.Witness.Last())
	require.NoError(t, w.opt.Alarm.Raised())
}

// forget takes back what is known of the witness above its entry at.
func (w *Witness) forget(at uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at, w.last = at, streams.Link{}
}

// TestTheWitnessIsLengthenedWhileItIsOpenedAgain: one part of a plane appends to
// it, another opens the one that is there now.
func TestTheWitnessIsLengthenedWhileItIsOpenedAgain(t *testing.T) {
	w := newWorld(t)
	w.grow(t, 3)
	stop, ended := w.run(t)
	require.NoError(t, w.fold.Wait(t.Context(), 3))
	stop()
	require.NoError(t, <-ended)
	_, was, _ := w.opt.Witness.end()

	opened := make(chan error, 1)
	go func() { opened <- w.opt.Witness.reopen(t.Context()) }()
	for open := true; open; {
		select {
		case err := <-opened:
			require.NoError(t, err)
			open = false
		default:
		}
		_, at, _ := w.opt.Witness.end()
		w.opt.Witness.forget(at)        // the head is witnessed again and again
		_ = w.append(t.Context(), true) // another entry may be there
	}
	_, now, _ := w.opt.Witness.end()
	require.Greater(t, now, was)
}

// TestAFoldThatMissesItsTailNamesTheDamage: it may find out before the monitor does.
func TestAFoldThatMissesItsTailNamesTheDamage(t *testing.T) {
	w := newWorld(t)
	w.grow(t, 7)
	err := w.Run(t.Context(), func(context.Context) error { return &projector.OtherLogError{Seq: 9} })
	var damage *streams.DamagedError
	require.ErrorAs(t, err, &damage)
	require.Equal(t, [3]any{streams.DamageTruncated, uint64(8), uint64(9)}, [3]any{damage.Damage, damage.From, damage.To})
}

func TestAnAlarmBeforeTheFoldBeginsEndsIt(t *testing.T) {
	a := NewAlarm(slog.New(slog.DiscardHandler))
	a.Raise(&streams.DamagedError{Damage: streams.DamageChanged, From: 1, To: 2})
	ctx, cancel := context.WithCancel(t.Context())
	a.stopFold(cancel)
	require.Error(t, ctx.Err())
}

func TestOnlyTheFirstAlarmCounts(t *testing.T) {
	a := NewAlarm(slog.New(slog.DiscardHandler))
	a.Raise(&streams.DamagedError{Damage: streams.DamageChanged, Detail: "first"})
	a.Raise(errors.New("second"))
	require.ErrorContains(t, a.Raised(), "first")
}

// links are those of a fold, of which it knows the hash at 1000 and 2000.
type links struct{ agreed uint64 }

func (l links) Agreed() uint64 { return l.agreed }

func (l links) Differ(theirs []streams.Link) (seq, agreed uint64) {
	for _, t := range theirs {
		if t.Hash != [32]byte{byte(t.Seq / 1000)} {
			return t.Seq, agreed
		}
		agreed = t.Seq
	}
	return 0, agreed
}

func TestWorkersThatDifferStandStillUnlessTheWitnessConfirmsOne(t *testing.T) {
	same := []streams.Link{{Seq: 1000, Hash: [32]byte{1}}, {Seq: 2000, Hash: [32]byte{2}}}
	other := []streams.Link{same[0], {Seq: 2000, Hash: [32]byte{9}}}
	for _, c := range []struct {
		name   string
		theirs []streams.Link
		agreed uint64
		damage *streams.DamagedError
	}{
		{"they folded the same", same, 0, nil},
		{"they differ, and the witness has confirmed neither", other, 1000, &streams.DamagedError{Damage: streams.DamageChanged, From: 1001, To: 2000}},
		{"they differ, and the witness has confirmed this one", other, 2000, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			quiet := slog.New(slog.DiscardHandler)
			a := NewAlarm(quiet)
			Comparer{Alarm: a, Fold: links{c.agreed}, Name: "w1", Log: quiet}.Compare("w2", c.theirs)
			if c.damage == nil {
				require.NoError(t, a.Raised())
				return
			}
			var d *streams.DamagedError
			require.ErrorAs(t, a.Raised(), &d)
			require.Equal(t, [3]any{c.damage.Damage, c.damage.From, c.damage.To}, [3]any{d.Damage, d.From, d.To})
			require.ErrorContains(t, a.Raised(), "workers w1 and w2")
		})
	}
}

// thinned is a log of which servers are away.
type thinned struct {
	Log
	away error
}

func (l *thinned) Replicas(context.Context) error { return l.away }

// TestServersThatAreAwayAreSaidOnce, and that they are back.
func TestServersThatAreAwayAreSaidOnce(t *testing.T) {
	var out output.Buffer
	log := &thinned{}
	m := NewMonitor(Options{Log: log, Logger: slog.New(slog.NewTextHandler(&out, nil))})
	for _, c := range []struct {
		answer error // of the log
		known  error
		lines  int // from the beginning on
	}{
		{nil, nil, 0},
		{&streams.ReplicaError{Away: []string{"n2"}, Replicas: 3}, &streams.ReplicaError{Away: []string{"n2"}, Replicas: 3}, 1},
		{&streams.ReplicaError{Away: []string{"n2"}, Replicas: 3}, &streams.ReplicaError{Away: []string{"n2"}, Replicas: 3}, 1},
		{streams.ErrNoAnswer, &streams.ReplicaError{Away: []string{"n2"}, Replicas: 3}, 1},
		{&streams.ReplicaError{Away: []string{"n1"}, Replicas: 3}, &streams.ReplicaError{Away: []string{"n1"}, Replicas: 3}, 2},
		{nil, nil, 3},
		{nil, nil, 3},
	} {
		log.away = c.answer
		m.checkReplicas(t.Context())
		require.Equal(t, c.known, m.Replicas())
		require.Equal(t, c.lines, strings.Count(out.String(), "\n"), out.String())
	}
	require.Contains(t, out.String(), "n2 cannot be heard")
	require.Contains(t, out.String(), "all servers that keep the log are there again")
}
