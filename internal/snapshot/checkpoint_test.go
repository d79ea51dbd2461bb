package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/policy"
)

// shelf is an object store and a pointer in memory, each call of which may
// fail.
type shelf struct {
	objects  map[string][]byte
	value    []byte
	revision uint64
	fail     func(call string) error // nil: nothing fails
	between  func()                  // called once, between a read of the pointer and its move
	age      time.Duration           // of every object
}

func newShelf() *shelf { return &shelf{objects: map[string][]byte{}} }

func (s *shelf) fails(call string) error {
	if s.fail == nil {
		return nil
	}
	return s.fail(call)
}

func (s *shelf) Put(_ context.Context, name string, r io.Reader) (streams.Object, error) {
	if err := s.fails("put"); err != nil {
		return streams.Object{}, err
	}
	b, err := io.ReadAll(r)
	if err != nil {
		return streams.Object{}, err
	}
	s.objects[name] = b
	return streams.Object{Name: name, Bytes: uint64(len(b))}, s.fails("put acknowledged")
}

type shelfObjects struct{ *shelf }

func (s shelfObjects) Get(_ context.Context, name string) (io.ReadCloser, error) {
	b, ok := s.objects[name]
	if !ok {
		return nil, streams.ErrNotFound
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

func (s shelfObjects) Delete(_ context.Context, name string) error {
	if err := s.fails("delete"); err != nil {
		return err
	}
	delete(s.objects, name)
	return nil
}

func (s shelfObjects) List(context.Context) (all []streams.Object, err error) {
	for name := range s.objects {
		all = append(all, streams.Object{Name: name, Time: time.Now().Add(-s.age)})
	}
	return all, s.fails("list")
}

func (s shelfObjects) Sweep(context.Context, time.Duration) (int, error) { return 0, s.fails("sweep") }

func (s *shelf) Get(_ context.Context, key string) ([]byte, uint64, error) {
	if s.revision == 0 {
		return nil, 0, streams.ErrNotFound
	}
	return s.value, s.revision, nil
}

func (s *shelf) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (uint64, error) {
	return s.Update(ctx, key, value, 0, ttl)
}

func (s *shelf) Update(_ context.Context, _ string, value []byte, revision uint64, _ time.Duration) (uint64, error) {
	if f := s.between; f != nil {
		s.between = nil
		f()
	}
	if err := s.fails("point"); err != nil {
		return 0, err
	}
	if revision != s.revision {
		return 0, streams.ErrWrongSequence
	}
	s.value, s.revision = value, s.revision+1
	return s.revision, s.fails("point acknowledged")
}

// on keeps the checkpoints of the tests' log on a shelf, with stores in fs.
func (s *shelf) on(fs vfs.FS) *Checkpoints {
	c := NewCheckpoints(shelfObjects{s}, s, options.Created)
	c.fs = fs
	return c
}

// Get makes a sliceLog one whose events can be read one by one.
func (l *sliceLog) Get(_ context.Context, seq uint64) (streams.Message, error) {
	if seq == 0 || seq > uint64(len(l.msgs)) {
		return streams.Message{}, streams.ErrNotFound
	}
	return l.msgs[seq-1], nil
}

// worker is a store in memory that has folded some of a log.
func worker(t testing.TB, fs vfs.FS, msgs []streams.Message) *projector.Projector {
	t.Helper()
	p, err := projector.Open("live", options.On(fs))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	require.NoError(t, p.Apply(msgs))
	return p
}

func create(t testing.TB, c *Checkpoints, p *projector.Projector, keep int) Manifest {
	t.Helper()
	m, err := c.Create(t.Context(), p, "scratch", "w1", keep)
	require.NoError(t, err)
	require.Equal(t, uint64(len(c.objects.(shelfObjects).objects[m.Name])), m.Bytes)
	return m
}

// A worker that starts from a checkpoint and folds the rest is where one is
// that folded everything: at once, and whatever it folds next.
func TestARestoredCheckpointAndTheRestAreTheWholeFold(t *testing.T) {
	gen.Unraced()
	fs := vfs.NewMem()
	log := &sliceLog{msgs: drawnHistory(t, rand.New(rand.NewPCG(1, 2)), 120), cut: 37}
	c := newShelf().on(fs)
	p := worker(t, fs, nil)
	for _, at := range []int{0, 1, 50, 119, 120} {
		require.NoError(t, p.Apply(log.msgs[:at]))
		m := create(t, c, p, 2)
		require.Equal(t, uint64(at), m.Seq)
		dir := fmt.Sprint("restored-", at)
		r, err := BeginFrom(t.Context(), c, m, log, dir, options.On(fs))
		require.NoError(t, err)
		require.Equal(t, missed(t, p), missed(t, r.Store()), "the kept past is restored with the rest")
		require.NoError(t, r.FoldTo(t.Context(), 120, nil))
		got, err := r.Result(t.Context())
		require.NoError(t, err)
		require.NoError(t, r.Close())
		require.Equal(t, foldedWhole(t, log, 120), got)
	}
	_, err := fs.Stat("scratch")
	require.Error(t, err, "nothing is left of the copy")
}

// missed is what every node has and had since the log began, and how much of the
// past is kept.
func missed(t *testing.T, p *projector.Projector) (out []string) {
	out = append(out, fmt.Sprint(p.PastStatus()))
	p.Read(func(v *projector.View) {
		seats, _, more := v.NodeSummaries(nil, projector.NodeCursor{}, 1000)
		require.False(t, more)
		for _, s := range seats {
			out = append(out, string(s.ID))
		}
	})
	for _, id := range out[1:] {
		past, err := p.Past(policy.NodeID(id), 0, nil)
		require.NoError(t, err)
		past.Plain = false // of what memory knows, a worker that has just begun knows less
		out = append(out, fmt.Sprint(past))
	}
	return out
}

func foldedWhole(t *testing.T, log *sliceLog, until uint64) Result {
	t.Helper()
	r, err := begin(log, fmt.Sprint("whole-", until), options.On(vfs.NewMem()))
	require.NoError(t, err)
	require.NoError(t, r.FoldTo(t.Context(), until, nil))
	res, err := r.Result(t.Context())
	require.NoError(t, err)
	require.NoError(t, r.Close())
	return res
}

func TestTheLastCheckpointsAreKept(t *testing.T) {
	fs, s := vfs.NewMem(), newShelf()
	log := nodeEvents(9)
	p, c := worker(t, fs, nil), s.on(fs)
	for at := range 9 {
		require.NoError(t, p.Apply(log[:at+1]))
		create(t, c, p, 3)
	}
	all, err := c.List(t.Context())
	require.NoError(t, err)
	var seqs []uint64
	names := map[string]bool{}
	for _, m := range all {
		seqs = append(seqs, m.Seq)
		names[m.Name] = true
	}
	require.Equal(t, []uint64{9, 8, 7}, seqs)
	require.ElementsMatch(t, slices.Collect(maps.Keys(names)), slices.Collect(maps.Keys(s.objects)), "and no other object is")

	other := NewCheckpoints(shelfObjects{s}, s, options.Created.Add(1))
	all, err = other.List(t.Context())
	require.NoError(t, err)
	require.Empty(t, all, "another log has none of these")
}

// Two workers make one at the same time: neither is lost.
func TestAPointerThatMovedMeanwhileIsReadAgain(t *testing.T) {
	fs, s := vfs.NewMem(), newShelf()
	p, c := worker(t, fs, nodeEvents(2)), s.on(fs)
	elsewhere := vfs.NewMem()
	q := worker(t, elsewhere, nodeEvents(5))
	s.between = func() { create(t, s.on(elsewhere), q, 4) }
	create(t, c, p, 4)
	all, err := c.List(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, uint64(5), all[0].Seq)
}

// Whatever step fails, or is never acknowledged, the checkpoints that the
// pointer names are whole.
func TestACrashAtAnyStepLeavesWholeCheckpoints(t *testing.T) {
	gen.Unraced()
	broken := errors.New("the process is gone")
	for _, step := range []string{"put", "put acknowledged", "point", "point acknowledged", "delete", "list", "sweep"} {
		fs, s := vfs.NewMem(), newShelf()
		log := &sliceLog{msgs: nodeEvents(12), cut: 5}
		p, c := worker(t, fs, log.msgs[:4]), s.on(fs)
		create(t, c, p, 1)
		require.NoError(t, p.Apply(log.msgs[:9]))
		s.fail = func(call string) error {
			if call == step {
				return broken
			}
			return nil
		}
		_, err := c.Create(t.Context(), p, "scratch", "w1", 1)
		require.ErrorIs(t, err, broken, step)
		s.fail = nil
		all, err := c.List(t.Context())
		require.NoError(t, err)
		require.NotEmpty(t, all, step)
		for i, m := range all {
			require.NoError(t, c.Restore(t.Context(), m, log, fmt.Sprint("restored-", i), options), step)
		}
		require.NoError(t, p.Apply(log.msgs))
		require.Equal(t, uint64(12), create(t, c, p, 1).Seq, "the next one is as good as ever")
		s.age = sweepAge + time.Minute
		create(t, c, p, 1)
		require.Len(t, s.objects, 1, "%s: what the crash left is removed in the end", step)
	}
}

// Nothing but the store that was copied comes out of a checkpoint, and of what
// is refused nothing is left.
func TestACheckpointThatIsNotWhatItSaysIsRefused(t *testing.T) {
	gen.Unraced()
	fs, s := vfs.NewMem(), newShelf()
	log := &sliceLog{msgs: drawnHistory(t, rand.New(rand.NewPCG(3, 4)), 60), cut: 9}
	p, c := worker(t, fs, log.msgs[:50]), s.on(fs)
	good := create(t, c, p, 1)
	whole := s.objects[good.Name]
	refused := func(name string, m Manifest, log *sliceLog, opt projector.Options, says string) {
		t.Helper()
		err := c.Restore(t.Context(), m, log, "restored", opt)
		var r *RefusedError
		require.ErrorAs(t, err, &r, name)
		require.ErrorContains(t, err, says, name)
		_, statErr := fs.Stat("restored")
		require.Error(t, statErr, "%s: nothing is left", name)
	}
	for i := range 60 { // a byte is not what it was, somewhere
		at := (len(whole) - 1) * i / 59
		s.objects[good.Name] = slices.Clone(whole)
		s.objects[good.Name][at] ^= 0x55
		refused(fmt.Sprint("byte ", at), good, log, options, "")
	}
	for _, n := range []int{0, 1, 100, len(whole) / 2, len(whole) - 1} {
		s.objects[good.Name] = whole[:n]
		refused(fmt.Sprint("first ", n), good, log, options, "")
	}
	s.objects[good.Name] = append(slices.Clone(whole), "more"...)
	refused("something behind it", good, log, options, "not an archive")
	delete(s.objects, good.Name)
	refused("gone", good, log, options, "not found")
	s.objects[good.Name] = whole

	m := good
	m.Schema = projector.SchemaVersion + 1
	refused("newer schema", m, log, options, fmt.Sprintf("schema %d, this binary reads %d", m.Schema, projector.SchemaVersion))
	opt := options
	opt.Created = opt.Created.Add(time.Second)
	refused("another log's", good, log, opt, "not of this one")
	opt = options
	opt.Partitions++
	refused("other partitions", good, log, opt, "partitions")
	m = good
	m.Digest = good.Chain
	refused("other digest", m, log, options, "its digest is")
	m = good
	m.Seq++
	refused("other sequence", m, log, options, "stands at sequence 50")
	m = good
	m.Chain = good.Digest
	refused("other chain", m, log, options, "chain hash")
	changed := &sliceLog{msgs: slices.Clone(log.msgs), cut: 9}
	changed.msgs[49].Body = append(slices.Clone(changed.msgs[49].Body), ' ')
	refused("a log with another past", good, changed, options, "event 50 differs")
	refused("a log that ends before", good, &sliceLog{msgs: log.msgs[:49], cut: 9}, options, "which the log lacks")

	require.NoError(t, c.Restore(t.Context(), good, log, "restored", options), "it was good all the while")
}
