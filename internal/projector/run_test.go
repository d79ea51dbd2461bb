package projector_test

import (
	"context"
	"fmt"
	"runtime/debug"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/policy"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // an eighth of the time of these tests is collecting garbage
	goleak.VerifyTestMain(m)
}

// openLog starts a server on dir and opens its log.
func openLog(t *testing.T, dir string) (*streams.Log, func()) {
	server, err := streams.StartServer(streams.ServerOptions{Dir: dir, Relaxed: true})
	require.NoError(t, err)
	conn, err := streams.Connect(t.Context(), streams.ConnectOptions{Server: server})
	require.NoError(t, err)
	log, err := streams.OpenLog(t.Context(), conn, streams.LogOptions{})
	require.NoError(t, err)
	return log, func() { conn.Close(); server.Close() }
}

// run folds log into the store in dir until the function returned is called.
func run(t *testing.T, dir string, log *streams.Log) (*projector.Projector, func()) {
	p, err := projector.Open(dir, projector.Options{Partitions: log.Partitions(), Created: log.Created(), First: log.First()})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx, log) }()
	return p, func() {
		cancel()
		require.NoError(t, <-done)
		require.NoError(t, p.Close())
	}
}

func register(t *testing.T, log *streams.Log, from, to int) uint64 {
	var as []streams.Append
	for i := from; i < to; i++ {
		labels, err := policy.NewLabels(map[string]string{"role": fmt.Sprintf("r%d", i%7)}, "")
		require.NoError(t, err)
		as = append(as, streams.Append{Bulk: true, Event: policy.NodeUpdated{
			ID: uuid.New(), Project: uuid.UUID{1}, Node: policy.NodeID(fmt.Sprintf("n%d", i)), Labels: labels,
		}})
	}
	seqs, err := log.PublishAll(t.Context(), as)
	require.NoError(t, err)
	return seqs[len(seqs)-1]
}

// TestAProjectorGoesOnWhereItStopped folds a log in two runs on one disk and in
// one run on another, and finds the same state.
func TestAProjectorGoesOnWhereItStopped(t *testing.T) {
	gen.Unraced()
	log, stop := openLog(t, t.TempDir())
	defer stop()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir := t.TempDir()

	last := register(t, log, 0, 1200)
	p, halt := run(t, dir, log)
	require.NoError(t, p.Wait(ctx, last))
	halt()

	last = register(t, log, 500, 1500)
	p, halt = run(t, dir, log)
	require.NoError(t, p.Wait(ctx, last))
	first, err := p.Digest(ctx)
	require.NoError(t, err)
	halt()

	p, halt = run(t, t.TempDir(), log)
	require.NoError(t, p.Wait(ctx, last))
	second, err := p.Digest(ctx)
	require.NoError(t, err)
	halt()
	require.Equal(t, first, second)
}

// TestAWriterWaitsForItsVerdict asks for verdicts while the fold runs.
func TestAWriterWaitsForItsVerdict(t *testing.T) {
	log, stop := openLog(t, t.TempDir())
	defer stop()
	p, halt := run(t, t.TempDir(), log)
	defer halt()
	e := policy.NodeRemoved{ID: uuid.New(), Project: uuid.UUID{1}, Node: "gone"}
	seq, dup, err := log.Publish(t.Context(), streams.Append{Event: e})
	require.NoError(t, err)
	require.False(t, dup)
	v, err := p.Verdict(t.Context(), seq)
	require.NoError(t, err)
	require.True(t, v.Duplicate, "deleting what is gone changes nothing")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = p.Verdict(ctx, seq+1)
	require.ErrorIs(t, err, context.Canceled)
}

// TestAnotherLogIsRefused opens a store against a log it was not folded from.
func TestAnotherLogIsRefused(t *testing.T) {
	dir := t.TempDir()
	log, stop := openLog(t, t.TempDir())
	last := register(t, log, 0, 10)
	p, halt := run(t, dir, log)
	require.NoError(t, p.Wait(t.Context(), last))
	halt()
	stop()

	log, stop = openLog(t, t.TempDir())
	defer stop()
	_, err := projector.Open(dir, projector.Options{Partitions: log.Partitions(), Created: log.Created(), First: log.First()})
	var other *projector.OtherLogError
	require.ErrorAs(t, err, &other)
	require.ErrorContains(t, err, "move the directory away")
}

// lostLog does not answer questions about single events at first.
type lostLog struct {
	projector.Log
	lost chan error
}

func (l *lostLog) Get(ctx context.Context, seq uint64) (streams.Message, error) {
	select {
	case err := <-l.lost:
		return streams.Message{}, err
	default:
		return l.Log.Get(ctx, seq)
	}
}

// TestAFoldOutlivesALogThatDoesNotAnswerAtItsStart: a connection may be lost then
// as at any time.
func TestAFoldOutlivesALogThatDoesNotAnswerAtItsStart(t *testing.T) {
	log, stop := openLog(t, t.TempDir())
	defer stop()
	dir := t.TempDir()
	p, halt := run(t, dir, log)
	require.NoError(t, p.Wait(t.Context(), register(t, log, 0, 10)))
	halt()

	var last uint64
	for name, fold := range map[string]func(ctx context.Context, p *projector.Projector, log projector.Log) error{
		"as it runs": func(ctx context.Context, p *projector.Projector, log projector.Log) error { return p.Run(ctx, log) },
		"as it builds": func(ctx context.Context, p *projector.Projector, log projector.Log) error {
			return p.Rebuild(ctx, log, last)
		},
	} {
		t.Run(name, func(t *testing.T) {
			last = register(t, log, 10, 20)
			lost := &lostLog{log, make(chan error, 2)}
			lost.lost <- fmt.Errorf("read: %w", streams.ErrNoAnswer)
			lost.lost <- fmt.Errorf("read: %w", streams.ErrBusy)
			p, err := projector.Open(dir, projector.Options{Partitions: log.Partitions(), Created: log.Created(), First: log.First()})
			require.NoError(t, err)
			defer func() { require.NoError(t, p.Close()) }()
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				done <- fold(ctx, p, lost)
				cancel()
			}()
			_ = p.Wait(ctx, last) // the fold's own error says more
			cancel()
			require.NoError(t, <-done)
			require.Empty(t, lost.lost)
			require.Equal(t, last, p.Applied())
		})
	}
}
