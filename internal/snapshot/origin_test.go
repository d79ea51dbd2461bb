package snapshot

import (
	"context"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/gen"
)

// compactedLog is one whose events before the origin are gone.
type compactedLog struct {
	*sliceLog
	origin uint64
}

func (l *compactedLog) State(ctx context.Context) (streams.State, error) {
	s, err := l.sliceLog.State(ctx)
	s.First = l.origin
	return s, err
}

func (l *compactedLog) Follow(ctx context.Context, from uint64) iter.Seq2[[]streams.Message, error] {
	if from < l.origin {
		return func(yield func([]streams.Message, error) bool) {
			yield(nil, &streams.CompactedError{Seq: from, Origin: l.origin})
		}
	}
	return l.sliceLog.Follow(ctx, from)
}

func (l *compactedLog) Get(ctx context.Context, seq uint64) (streams.Message, error) {
	if seq < l.origin {
		return streams.Message{}, &streams.CompactedError{Seq: seq, Origin: l.origin}
	}
	return l.sliceLog.Get(ctx, seq)
}

func signer(t testing.TB) *artifact.Signer {
	t.Helper()
	s, err := artifact.GenerateSigner()
	require.NoError(t, err)
	return s
}

func only(keys ...*artifact.Signer) Trust {
	return func(id string) bool {
		return slices.ContainsFunc(keys, func(s *artifact.Signer) bool { return s.KeyID() == id })
	}
}

// makeOrigin stores what a read model has as an origin, signed.
func makeOrigin(t testing.TB, c *Checkpoints, p *projector.Projector, s *artifact.Signer) (OriginManifest, streams.Origin) {
	t.Helper()
	at, err := p.Checkpoint(t.Context(), "origin")
	require.NoError(t, err)
	defer func() { require.NoError(t, c.fs.RemoveAll("origin")) }()
	m := OriginManifest{Before: hex.EncodeToString(at.Before[:])}
	m.Manifest, m.SHA256, err = c.store(t.Context(), at, originPrefix, "origin", "w1")
	require.NoError(t, err)
	return m, sealed(t, m, s)
}

func sealed(t testing.TB, m OriginManifest, s *artifact.Signer) streams.Origin {
	t.Helper()
	document, err := m.seal(s)
	require.NoError(t, err)
	o, err := m.origin(document, 0)
	require.NoError(t, err)
	return o
}

// sentAgain is a log whose events all come a second time, in another order, and so meet
// whatever the fold must still know about the first.
func sentAgain(msgs []streams.Message, r *rand.Rand) []streams.Message {
	all := slices.Clone(msgs)
	at := msgs[len(msgs)-1].Time
	for _, i := range r.Perm(len(msgs)) {
		m := msgs[i]
		m.Seq, m.Time = uint64(len(all)+1), at
		all = append(all, m)
	}
	return all
}

// verdictsOf is what a fold made of a log's events from one on, and where it stands.
func verdictsOf(t testing.TB, p *projector.Projector, from, until uint64) (out []string) {
	t.Helper()
	for seq := from; seq <= until; seq++ {
		v, err := p.Verdict(t.Context(), seq)
		require.NoError(t, err)
		out = append(out, fmt.Sprintf("%d %v %+v", seq, v.Duplicate, v.Rejection))
	}
	d, err := p.Digest(t.Context())
	require.NoError(t, err)
	return append(out, fmt.Sprintf("%+v", d))
}

var cutEvery = flag.Uint64("origin.every", 8, "of the cuts of a generated log, every which one is tried, from one at random on")

// At any cut of a generated log: a worker that has nothing but the origin and the events
// from it on gives every later event the verdict of one that folded all of them, among them
// each of the removed events when it comes again, and has its digest, its rows and the past
// that nodes resume from.
func TestALogThatIsCutAnywhereMeansTheSame(t *testing.T) {
	gen.Unraced()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	history := drawnHistory(t, r, 60)
	log := &sliceLog{msgs: sentAgain(history, r), cut: 7}
	last := uint64(len(log.msgs))
	key := signer(t)

	twin := worker(t, vfs.NewMem(), log.msgs)
	facts := verdictsOf(t, twin, 1, last)
	past := missed(t, twin)
	for cut := 2 + r.Uint64N(*cutEvery); cut <= uint64(len(history)); cut += *cutEvery {
		fs := vfs.NewMem()
		c := newShelf().on(fs)
		made, err := projector.Open("live", options.On(fs))
		require.NoError(t, err)
		require.NoError(t, made.Apply(log.msgs[:cut]))
		m, o := makeOrigin(t, c, made, key)
		require.NoError(t, made.Close())
		require.Equal(t, cut, m.Seq)

		rest := &compactedLog{log, cut}
		got, err := BeginFromOrigin(t.Context(), c, o, only(key), rest, "restored", options.On(fs))
		require.NoError(t, err, "seed %d, cut at %d", seed, cut)
		require.NoError(t, got.FoldTo(t.Context(), last, nil), "seed %d, cut at %d", seed, cut)
		require.Equal(t, facts[cut:], verdictsOf(t, got.Store(), cut+1, last), "seed %d, cut at %d", seed, cut)
		require.Equal(t, past, missed(t, got.Store()), "seed %d, cut at %d", seed, cut)
		require.NoError(t, got.Close())
	}
}

// A disk that is full says nothing of the origin: who takes it for damaged would give up the log.
func TestAnOriginThatMeetsAFullDiskIsNotDamaged(t *testing.T) {
	gen.Unraced()
	mem, s := vfs.NewMem(), newShelf()
	log := &sliceLog{msgs: drawnHistory(t, rand.New(rand.NewPCG(3, 4)), 60), cut: 9}
	key := signer(t)
	_, o := makeOrigin(t, s.on(mem), worker(t, mem, log.msgs[:50]), key)
	full := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && strings.Contains(op.Path, "restored") {
			return syscall.ENOSPC
		}
		return nil
	}))
	err := s.on(full).RestoreOrigin(t.Context(), o, only(key), &compactedLog{log, 50}, "restored", options)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NotErrorAs(t, err, new(*streams.DamagedError))
}

// Who stops a proof has not found that the origin is damaged.
func TestAProofThatIsStoppedFindsNoDamage(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	err := OriginManifest{}.proves(ctx, streams.Origin{Seq: 50}, io.NopCloser(iotest.ErrReader(ctx.Err())))
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorAs(t, err, new(*streams.DamagedError))
	err = OriginManifest{}.proves(t.Context(), streams.Origin{Seq: 50}, io.NopCloser(iotest.ErrReader(context.Canceled)))
	require.ErrorIs(t, err, streams.ErrNoAnswer, "the connection was lost")
	require.NotErrorAs(t, err, new(*streams.DamagedError))
	require.NotErrorIs(t, err, context.Canceled)
	require.ErrorAs(t, OriginManifest{}.proves(t.Context(), streams.Origin{Seq: 50}, io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF))), new(*streams.DamagedError))
}

// Nothing but the origin that the plane signed, of this log, is taken for it.
func TestAnOriginThatLiesIsRefused(t *testing.T) {
	gen.Unraced()
	fs, s := vfs.NewMem(), newShelf()
	log := &sliceLog{msgs: drawnHistory(t, rand.New(rand.NewPCG(3, 4)), 60), cut: 9}
	rest := &compactedLog{log, 50}
	p, c := worker(t, fs, log.msgs[:50]), s.on(fs)
	key, foreign := signer(t), signer(t)
	m, o := makeOrigin(t, c, p, key)
	whole := s.objects[m.Name]
	refused := func(name string, o streams.Origin, trust Trust, log Getter, says string) {
		t.Helper()
		err := c.RestoreOrigin(t.Context(), o, trust, log, "restored", options)
		var damaged *streams.DamagedError
		require.ErrorAs(t, err, &damaged, name)
		require.Equal(t, streams.DamageOrigin, damaged.Damage)
		require.ErrorContains(t, err, says, name)
		_, statErr := fs.Stat("restored")
		require.Error(t, statErr, "%s: nothing is left", name)
	}
	for i := range 40 { // a bit is not what it was, somewhere in the object
		at := (len(whole) - 1) * i / 39
		s.objects[m.Name] = slices.Clone(whole)
		s.objects[m.Name][at] ^= 1 << (i % 8)
		refused(fmt.Sprint("object, byte ", at), o, only(key), rest, "")
	}
	s.objects[m.Name] = whole
	for at := range o.Document { // or in its document
		bent := o
		bent.Document = slices.Clone(o.Document)
		bent.Document[at] ^= 1
		if read, err := streams.ParseOrigin(o.Log, bent.Document); err == nil {
			bent = read
		}
		refused(fmt.Sprint("document, byte ", at), bent, only(key), rest, "")
	}
	refused("of another plane", sealed(t, m, foreign), only(key), rest, "never the plane's")
	forged := strings.Replace(string(sealed(t, m, foreign).Document), foreign.KeyID(), key.KeyID(), 1)
	bent := o
	bent.Document = []byte(forged)
	refused("of another plane that says it was this one", bent, only(key), rest, "never the plane's")

	elsewhere := vfs.NewMem()
	before, was := makeOrigin(t, s.on(elsewhere), worker(t, elsewhere, log.msgs[:30]), key)
	refused("an older one", was, only(key), rest, "compacted")
	swapped := m
	swapped.Name, swapped.SHA256 = before.Name, before.SHA256
	refused("the object of an older one", sealed(t, swapped, key), only(key), rest, "stands at sequence 30")

	lie := m
	lie.Digest = m.Chain
	refused("another digest", sealed(t, lie, key), only(key), rest, "its digest is")
	lie = m
	lie.Schema++
	refused("of a release to come", sealed(t, lie, key), only(key), rest, "schema")
	other := o
	other.Log = "12"
	refused("recorded for another log", other, only(key), rest, "recorded for log 12")
	for what, bend := range map[string]func(o *streams.Origin){
		"another event": func(o *streams.Origin) { o.Seq-- }, "another past": func(o *streams.Origin) { o.Before[0] ^= 1 }, "another chain hash": func(o *streams.Origin) { o.Hash[0] ^= 1 },
	} {
		other = o
		bend(&other)
		refused("recorded as "+what, other, only(key), rest, "its record and its document")
	}
	e, err := artifact.Parse(o.Document)
	require.NoError(t, err)
	for what, bend := range map[string]func(e *artifact.Envelope){
		"another event": func(e *artifact.Envelope) { e.Version++ }, "another log": func(e *artifact.Envelope) { e.Name = "12" },
	} {
		bent, around := o, e
		bend(&around)
		bent.Document, err = key.Seal(around)
		require.NoError(t, err)
		refused("in an envelope of "+what, bent, only(key), rest, "its envelope and its payload")
	}
	s.objects[m.Name] = append(slices.Clone(whole), 0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0) // a frame that zstd skips
	refused("more than the object", o, only(key), rest, "SHA-256")
	s.objects[m.Name] = whole
	changed := &sliceLog{msgs: slices.Clone(log.msgs), cut: 9}
	changed.msgs[49].Body = append(slices.Clone(changed.msgs[49].Body), ' ')
	refused("a log with another past", o, only(key), &compactedLog{changed, 50}, "event 50 differs")

	require.NoError(t, c.RestoreOrigin(t.Context(), o, only(key), rest, "restored", options), "it was good all the while")
}

// The origin of a log that was imported is that of the log which it was made of.
func TestAnOriginMovesWithItsLog(t *testing.T) {
	fs := vfs.NewMem()
	log := &sliceLog{msgs: drawnHistory(t, rand.New(rand.NewPCG(5, 6)), 40), cut: 9}
	p, c := worker(t, fs, log.msgs[:30]), newShelf().on(fs)
	key := signer(t)
	_, o := makeOrigin(t, c, p, key)
	moved := options.On(fs)
	moved.Created, moved.Base = options.Created.Add(time.Hour), 77
	o.Log = logID(moved.Created)
	there := NewCheckpoints(c.objects, c.pointer, moved.Created)
	there.fs = fs
	r, err := BeginFromOrigin(t.Context(), there, o, only(key), &compactedLog{log, 30}, "moved", moved)
	require.NoError(t, err)
	require.NoError(t, r.FoldTo(t.Context(), 40, nil))
	got, err := r.Result(t.Context())
	require.NoError(t, err)
	require.Equal(t, foldedWhole(t, log, 40), got)
	require.NoError(t, r.Close())
}
