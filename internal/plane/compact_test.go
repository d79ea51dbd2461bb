package plane

import (
	"context"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/integrity"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/internal/streams"
)

// digest is that of a worker's read model now, and where it stands.
func (p *Plane) digest(t *testing.T) (seq uint64, sum string) {
	t.Helper()
	d, err := p.store.Digest(t.Context())
	require.NoError(t, err)
	return d.Seq, hex.EncodeToString(d.Sum[:])
}

// compacts compacts the log, and reads what is left of it without a fault.
func (p *Plane) compacts(t *testing.T, seq uint64) {
	t.Helper()
	m, err := p.compactor.Compact(t.Context(), seq, "")
	require.NoError(t, err)
	require.Equal(t, seq, m.Seq)
	s, err := p.stream.State(t.Context())
	require.NoError(t, err)
	require.Equal(t, seq, s.First)
	require.True(t, p.monitor.Audit(t.Context()))
	require.NoError(t, p.alarm.Raised())
	_, err = os.Stat(p.opt.dir().Compaction())
	require.ErrorIs(t, err, os.ErrNotExist)
}

// A plane whose log is compacted is where it was, and goes on: with its read model, without,
// and with one of before that can never go on.
func TestACompactedLogIsThePlaneThatItWas(t *testing.T) {
	dir := data(t)
	old := filepath.Join(t.TempDir(), "store")
	opt := Options{Data: dir, NATSListen: "none", witnessEvery: 5 * time.Millisecond}
	p, stop := runningUntil(t, opt)
	require.NoError(t, p.store.Wait(t.Context(), folded))
	stop()
	require.NoError(t, os.CopyFS(old, os.DirFS(filepath.Join(dir, "store"))))

	p, stop = runningUntil(t, opt)
	_, err := p.stream.PublishAll(t.Context(), nodes(folded+1, folded+100))
	require.NoError(t, err)
	require.NoError(t, p.store.Wait(t.Context(), folded+100))
	p.compacts(t, 1700)
	p.compacts(t, folded+50)
	_, err = p.compactor.Compact(t.Context(), 1700, "")
	require.ErrorAs(t, err, new(*snapshot.BeyondError))
	_, err = p.compactor.Compact(t.Context(), folded+101, "")
	require.ErrorAs(t, err, new(*snapshot.BeyondError))
	p.takes(t, "behind-the-origin")
	seq, sum := p.digest(t)
	stop()

	for name, store := range map[string]string{"with its own": "", "with none": t.TempDir(), "with one of before": old} {
		if store != "" {
			require.NoError(t, os.RemoveAll(filepath.Join(dir, "store")))
			require.NoError(t, os.CopyFS(filepath.Join(dir, "store"), os.DirFS(store)))
		}
		p, stop := runningUntil(t, opt)
		require.Eventually(t, func() bool { return p.store.Applied() >= seq || p.alarm.Raised() != nil }, 20*time.Second, time.Millisecond, name)
		require.NoError(t, p.alarm.Raised(), name)
		_, again := p.digest(t)
		require.Equal(t, sum, again, name)
		p.serves(t)
		require.True(t, p.monitor.Audit(t.Context()), name)
		stop()
	}
}

// Of two workers that compact at once one is first. The other removes nothing, and both go
// on.
func TestTwoWorkersCompactAtOnce(t *testing.T) {
	dir := data(t)
	e := startExternal(t, dir)
	var workers [2]*Plane
	for i, name := range []string{"w1", "w2"} {
		opt := e.worker(t, dir)
		opt.Name = name
		if i > 0 {
			opt.Data = t.TempDir()
		}
		workers[i] = running(t, opt)
		workers[i].serves(t)
	}
	var at sync.WaitGroup
	var errs [2]error
	for i, p := range workers {
		at.Go(func() { _, errs[i] = p.compactor.Compact(t.Context(), uint64(1000+500*i), "") })
	}
	at.Wait()
	o, err := streams.FindOrigin(t.Context(), workers[0].conn)
	require.NoError(t, err)
	for i, err := range errs {
		var beyond *snapshot.BeyondError
		switch {
		case err == nil, errors.Is(err, snapshot.ErrCompacting), errors.Is(err, streams.ErrWrongSequence), errors.As(err, &beyond):
		default:
			t.Errorf("worker %d: %v", i, err)
		}
	}
	require.True(t, errs[0] == nil || errs[1] == nil)
	for i, p := range workers {
		p.takes(t, "after-"+p.opt.Name)
		s, err := p.stream.State(t.Context())
		require.NoError(t, err)
		require.Equal(t, o.Seq, s.First, i)
		m, err := snapshot.OpenOrigin(o.Document, p.keys.Was)
		require.NoError(t, err)
		require.Equal(t, s.First, m.Seq)
	}
}

// A worker that was away while the log was compacted starts from the origin; one that runs
// and stands before it ends, to be started again.
func TestAWorkerThatWasAwayStartsFromTheOrigin(t *testing.T) {
	dir := data(t)
	e := startExternal(t, dir)
	p := running(t, e.worker(t, dir))
	p.serves(t)
	away := e.worker(t, dir)
	away.Name, away.Data = "away", t.TempDir()
	q, stop := runningUntil(t, away)
	q.serves(t)
	stop()
	_, err := p.stream.PublishAll(t.Context(), nodes(folded+1, folded+1500))
	require.NoError(t, err)
	require.NoError(t, p.store.Wait(t.Context(), folded+1500))
	p.compacts(t, folded+1200)
	q = running(t, away)
	q.serves(t)
	seq, sum := p.digest(t)
	require.NoError(t, q.store.Wait(t.Context(), seq))
	at, other := q.digest(t)
	require.Equal(t, seq, at)
	require.Equal(t, sum, other)
	// Whoever follows from before it is told, and a fold ends with that.
	var overtaken *integrity.OvertakenError
	m := integrity.NewMonitor(integrity.Options{
		Alarm: integrity.NewAlarm(p.log), Witness: p.witness, Log: p.stream, Fold: p.store, Conn: p.conn, Leads: func() bool { return false }, Logger: p.log,
	})
	err = m.Run(t.Context(), func(ctx context.Context) error {
		for _, err := range p.stream.Follow(ctx, folded) {
			return err
		}
		return nil
	})
	require.ErrorAs(t, err, &overtaken)
	require.ErrorContains(t, err, "start this worker again")
}

// differing is a read model that came to something else.
type differing struct{ *projector.Projector }

func (d differing) Digest(ctx context.Context) (projector.Digest, error) {
	digest, err := d.Projector.Digest(ctx)
	digest.Sum[0] ^= 1
	return digest, err
}

// removedNothing holds that the log is whole, and has no origin.
func (p *Plane) removedNothing(t *testing.T) {
	t.Helper()
	s, err := p.stream.State(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, s.First)
	_, err = streams.FindOrigin(t.Context(), p.conn)
	require.ErrorIs(t, err, streams.ErrNotFound)
}

// Where the origin, folded on, is not what the worker has, nothing is removed, and nothing
// is left of it.
func TestNothingIsRemovedWhereTheReadModelsDiffer(t *testing.T) {
	p := running(t, Options{Data: data(t), NATSListen: "none", Relaxed: true, witnessEvery: 5 * time.Millisecond})
	require.NoError(t, p.store.Wait(t.Context(), folded))
	opt := p.compaction()
	opt.Live = differing{p.store}
	_, err := snapshot.NewCompactor(opt).Compact(t.Context(), 1700, "")
	require.ErrorContains(t, err, "nothing is removed")
	p.removedNothing(t)
	p.compacts(t, 1700)
}

// Where the server leaves it to the system when its writes are on the disk, the origin is there
// before anything is removed: a power failure would leave neither.
func TestNothingIsRemovedBeforeTheOriginIsOnTheDisk(t *testing.T) {
	p := running(t, Options{Data: data(t), NATSListen: "none", Relaxed: true, witnessEvery: 5 * time.Millisecond})
	require.NoError(t, p.store.Wait(t.Context(), folded))
	opt := p.compaction()
	require.NotNil(t, opt.Sync)
	require.NoError(t, opt.Sync())
	opt.Sync = func() error { return errors.New("the disk does not answer") }
	_, err := snapshot.NewCompactor(opt).Compact(t.Context(), 1700, "")
	require.ErrorContains(t, err, "the disk does not answer")
	s, err := p.stream.State(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, s.First)
	p.compacts(t, 1700)
}

// Nothing is removed behind what the witness of the log confirms.
func TestNothingIsRemovedThatTheWitnessDoesNotConfirm(t *testing.T) {
	p := running(t, Options{Data: data(t), NATSListen: "none", Relaxed: true, witnessEvery: 5 * time.Millisecond})
	require.NoError(t, p.store.Wait(t.Context(), folded))
	opt := p.compaction()
	links := opt.Links
	opt.Links = func(ctx context.Context) ([]streams.Link, error) {
		all, err := links(ctx)
		return slices.DeleteFunc(slices.Clone(all), func(l streams.Link) bool { return l.Seq >= 1700 }), err
	}
	some, err := opt.Links(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, some)
	_, err = snapshot.NewCompactor(opt).Compact(t.Context(), 1700, "")
	require.ErrorContains(t, err, "does not confirm event 1700")
	p.removedNothing(t)
}

// meanwhile is a read model during whose look at itself something happens.
type meanwhile struct {
	*projector.Projector
	happens func()
}

func (m meanwhile) Digest(ctx context.Context) (projector.Digest, error) {
	m.happens()
	return m.Projector.Digest(ctx)
}

// Who proved an origin while another worker recorded his removes nothing, and says so.
func TestACompactionThatIsOvertakenSaysSo(t *testing.T) {
	p := running(t, Options{Data: data(t), NATSListen: "none", Relaxed: true, witnessEvery: 5 * time.Millisecond})
	require.NoError(t, p.store.Wait(t.Context(), folded))
	opt := p.compaction()
	opt.Scratch = filepath.Join(t.TempDir(), "scratch")
	opt.Live = meanwhile{p.store, sync.OnceFunc(func() { p.compacts(t, 1600) })}
	_, err := snapshot.NewCompactor(opt).Compact(t.Context(), 1700, "")
	require.ErrorIs(t, err, snapshot.ErrCompacting)
	o, err := streams.FindOrigin(t.Context(), p.conn)
	require.NoError(t, err)
	require.EqualValues(t, 1600, o.Seq)
	s, err := p.stream.State(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1600, s.First)
	p.compacts(t, 1700)
}
