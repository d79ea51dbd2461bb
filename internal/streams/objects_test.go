package streams

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/gen"
)

const testObjects = "TEST_OBJECTS"

func noise(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{7})
	_, _ = r.Read(b) // never fails
	return b
}

// calledOff yields some bytes; at their end nobody wants the object any more.
type calledOff struct {
	left int
	off  context.CancelFunc
}

func (b *calledOff) Read(p []byte) (int, error) {
	if b.left == 0 {
		b.off()
		return 0, io.EOF
	}
	n := min(b.left, len(p))
	b.left -= n
	return n, nil
}

// TestAnObjectThatIsCalledOffLeavesNothingRunning breaks off at the end of an
// object, as a plane that is stopped does, on one processor: what was begun for it
// has not run yet then. TestMain looks for what is left.
func TestAnObjectThatIsCalledOffLeavesNothingRunning(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	c := embedded(t)
	o, err := MakeObjects(within(t), c, testObjects, "of a test")
	require.NoError(t, err)
	for range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		_, err = o.Put(ctx, "a", &calledOff{100, cancel})
		require.Error(t, err)
	}
}

// dribble yields a few bytes at a time, as a compressor may.
type dribble struct{ r io.Reader }

func (d dribble) Read(b []byte) (int, error) { return d.r.Read(b[:min(len(b), 1000)]) }

func TestAnObjectIsReadAsItWasStored(t *testing.T) {
	gen.Unraced()
	c := embedded(t)
	_, err := OpenObjects(within(t), c, testObjects)
	require.ErrorIs(t, err, ErrNotFound)
	o, err := MakeObjects(within(t), c, testObjects, "of a test")
	require.NoError(t, err)
	_, err = MakeObjects(within(t), c, testObjects, "of a test")
	require.NoError(t, err, "it is there")
	all, err := o.List(within(t))
	require.NoError(t, err)
	require.Empty(t, all)

	require.Equal(t, objectInFlight, o.inFlight)
	o.inFlight = 1 << 20
	body := noise(3 << 20) // so that the sender has to wait
	put, err := o.Put(within(t), "a", dribble{bytes.NewReader(body)})
	require.NoError(t, err)
	require.Equal(t, uint64(len(body)), put.Bytes)
	info, err := c.streamInfo(within(t), "OBJ_"+testObjects)
	require.NoError(t, err)
	require.Less(t, info.State.Msgs, uint64(len(body)/(128<<10)+4), "chunks are full")
	r, err := o.Get(within(t), "a")
	require.NoError(t, err)
	got, err := io.ReadAll(r)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	require.True(t, bytes.Equal(body, got))

	all, err = o.List(within(t))
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.NoError(t, o.Delete(within(t), "a"))
	require.NoError(t, o.Delete(within(t), "a"))
	_, err = o.Get(within(t), "a")
	require.ErrorIs(t, err, ErrNotFound)
}

func TestATransferThatBreaksOffLeavesNothingToRead(t *testing.T) {
	c := embedded(t)
	o, err := MakeObjects(within(t), c, testObjects, "of a test")
	require.NoError(t, err)
	broken := errors.New("the source is broken")
	_, err = o.Put(within(t), "a", io.MultiReader(bytes.NewReader(noise(1<<20)), failingReader{broken}))
	require.ErrorIs(t, err, broken)
	_, err = o.Get(within(t), "a")
	require.ErrorIs(t, err, ErrNotFound)
	called, cancel := context.WithCancel(t.Context())
	_, err = o.Put(called, "b", &calledOff{1 << 20, cancel})
	require.ErrorIs(t, err, context.Canceled)
	info, err := c.streamInfo(within(t), "OBJ_"+testObjects)
	require.NoError(t, err)
	require.Zero(t, info.State.Msgs, "what was sent takes no room")
}

type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) { return 0, f.err }

// A process that dies in a transfer leaves chunks that nothing names. They go
// once they are old; what is named stays.
func TestWhatABrokenTransferLeftIsSweptOnceItIsOld(t *testing.T) {
	c := embedded(t)
	o, err := MakeObjects(within(t), c, testObjects, "of a test")
	require.NoError(t, err)
	_, err = o.Put(within(t), "whole", bytes.NewReader(noise(300<<10)))
	require.NoError(t, err)
	for range 3 {
		_, err = c.js.Publish(within(t), "$O."+testObjects+".C.left", noise(1000))
		require.NoError(t, err)
	}
	n, err := o.Sweep(within(t), time.Hour)
	require.NoError(t, err)
	require.Zero(t, n, "it may be under way")
	n, err = o.Sweep(within(t), 0)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	r, err := o.Get(within(t), "whole")
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, r)
	require.NoError(t, err)
	require.NoError(t, r.Close())
}

func TestAnObjectWhoseBytesChangedFailsAtItsEnd(t *testing.T) {
	c := embedded(t)
	o, err := MakeObjects(within(t), c, testObjects, "of a test")
	require.NoError(t, err)
	_, err = o.Put(within(t), "a", bytes.NewReader(noise(100<<10)))
	require.NoError(t, err)
	s, err := c.js.Stream(within(t), "OBJ_"+testObjects)
	require.NoError(t, err)
	all, err := o.List(within(t))
	require.NoError(t, err)
	require.NoError(t, s.Purge(within(t), jetstream.WithPurgeSubject(all[0].chunk)))
	other := noise(100 << 10)
	other[5] ^= 1
	_, err = c.js.Publish(within(t), all[0].chunk, other)
	require.NoError(t, err)
	r, err := o.Get(within(t), "a")
	require.NoError(t, err)
	defer r.Close()
	_, err = io.Copy(io.Discard, r)
	require.Error(t, err)
}
