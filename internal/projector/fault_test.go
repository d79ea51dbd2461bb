package projector

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// sameAfterReload holds memory against what a reload builds from the store.
func sameAfterReload(t *testing.T, d disk, p *Projector) *Projector {
	before := summary(p)
	require.NoError(t, p.Close())
	p = d.open(t)
	require.Equal(t, before, summary(p))
	return p
}

func TestWhatStandsBeforeAHoleIsFolded(t *testing.T) {
	d, j := newDisk(), &journal{}
	p := d.open(t)
	for i := range 3 {
		j.add(update(t, i+1, 1, fmt.Sprintf("n%d", i)))
	}
	require.ErrorContains(t, p.Apply([]streams.Message{j.msgs[0], j.msgs[2]}), "log continues at 3, not at 2")
	require.Equal(t, uint64(1), p.Applied())
	p = sameAfterReload(t, d, p)
	defer p.Close()
	require.Equal(t, "applied", verdict(t, p, j.msgs[1]))
}

// TestAProjectorThatFailedTakesNoMore lets a read fail while a batch is half
// folded: memory is then ahead of the disk, and a later batch would hide that.
func TestAProjectorThatFailedTakesNoMore(t *testing.T) {
	broken := errors.New("the disk is broken")
	var fail atomic.Bool
	mem := vfs.NewMem()
	d := disk{errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if fail.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsRead {
			return broken
		}
		return nil
	}))}
	p, j := d.open(t), &journal{}
	verdict(t, p, j.add(admitted(1, "a", "one", 1)))
	verdict(t, p, j.add(admitted(2, "a", "one", 1)))
	require.NoError(t, p.db.Flush())
	again := []streams.Message{j.add(update(t, 3, 1, "b", "role", "web")), j.add(admitted(1, "a", "one", 1))}
	fail.Store(true)
	require.ErrorIs(t, p.Apply(again), broken)
	fail.Store(false)
	require.ErrorIs(t, p.Apply([]streams.Message{j.add(update(t, 4, 1, "c"))}), broken)
	require.NoError(t, p.Close())

	p = d.open(t)
	defer p.Close()
	require.Equal(t, uint64(2), p.Applied())
	require.NoError(t, p.Apply(j.msgs))
	p.Read(func(v *View) { require.Equal(t, 2, v.Counts().Nodes) })
}

func TestThePayloadsOfAPolicyNobodyMatchesGo(t *testing.T) {
	p, j := openFresh(t), &journal{}
	for i := range 10 {
		verdict(t, p, j.add(revise(t, i+1, 1, 1, i+1, i, "web", "role=web", 80+i)))
	}
	require.Equal(t, 1, count(t, p, keyPayload))
}

// TestReadersMayLookWhileTheFoldGoesOn is for the race detector.
func TestReadersMayLookWhileTheFoldGoesOn(t *testing.T) {
	p, j := openFresh(t), &journal{}
	j.add(revise(t, 1, 1, 1, 1, 0, "web", "role=web", 80))
	for i := range 600 {
		kv := []string{"role", []string{"web", "db"}[i/3%2], "set", fmt.Sprint(i % 5)}
		j.add(update(t, i+2, 1, fmt.Sprintf("n%d", i*7%90), kv...))
		if i%10 == 0 {
			j.add(revise(t, 10_000+i, 1, 2+i, 2+i, 0, fmt.Sprintf("p%d", i), "role!=db", 80+i))
		}
	}
	var readers sync.WaitGroup
	done := make(chan struct{})
	read := func(f func()) {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					f()
				}
			}
		})
	}
	p.Feed(&ear{})
	read(func() {
		for i := range 90 {
			past, err := p.Past(policy.NodeID(fmt.Sprintf("n%d", i)), policy.NewEventID(0, uint64(i), 0), nil)
			if err != nil && !errors.Is(err, ErrUnknownNode) && !errors.Is(err, ErrBehind) {
				t.Error(err)
			}
			for _, item := range past.Items {
				if item.Payload == nil != item.Gone {
					t.Error("a row without its payload")
				}
			}
		}
		p.PastStatus()
	})
	read(func() {
		if _, err := p.Digest(context.Background()); err != nil {
			t.Error(err)
		}
		p.Read(func(v *View) {
			v.Match(tenant(1), policy.Selector{Source: expr(t, "role!=web"), Destination: expr(t, "set=1")})
		})
	})
	for at := 0; at < len(j.msgs); at += 5 {
		require.NoError(t, p.Apply(j.msgs[at:min(at+5, len(j.msgs))]))
	}
	close(done)
	readers.Wait()
}

// TestAFullDiskIsWaitedOut lets every write fail for want of space until there
// is some again. The fold waits, its readers do not.
func TestAFullDiskIsWaitedOut(t *testing.T) {
	var full atomic.Bool
	waiting, room := make(chan struct{}), make(chan struct{})
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			return syscall.ENOSPC
		}
		return nil
	}))
	p, err := Open("store", Options{Partitions: testPartitions, Created: time.Unix(1, 0), fs: fs, flush: 1, Full: func() {
		close(waiting)
		<-room
	}})
	require.NoError(t, err)
	j := &journal{}
	verdict(t, p, j.add(update(t, 1, 1, "a", "role", "web")))
	full.Store(true)
	applied := make(chan error, 1)
	second, third := j.add(update(t, 2, 1, "b", "role", "web")), j.add(update(t, 3, 1, "c", "role", "web"))
	go func() { // the first flush begins before the second event, the next one before the third
		applied <- errors.Join(p.Apply([]streams.Message{second}), p.Apply([]streams.Message{third}))
	}()
	<-waiting
	require.Eventually(t, func() (seen bool) { // readers do not wait
		p.Read(func(v *View) { seen = v.Counts().Nodes == 2 })
		return seen
	}, time.Minute, time.Millisecond)
	require.Equal(t, uint64(1), p.Applied(), "nothing is shown that would not be remembered")
	full.Store(false)
	close(room)
	require.NoError(t, <-applied)
	require.Equal(t, uint64(3), p.Applied())
	require.NoError(t, p.Close())
}

// TestAFullDiskEndsAFoldApart, and not the process: what takes the room may be its own files.
func TestAFullDiskEndsAFoldApart(t *testing.T) {
	var full atomic.Bool
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			return syscall.ENOSPC
		}
		return nil
	}))
	p, err := Open("store", Options{Partitions: testPartitions, Created: time.Unix(1, 0), fs: fs, flush: 1, Apart: true, Full: func() {}})
	require.NoError(t, err)
	j := &journal{}
	verdict(t, p, j.add(update(t, 1, 1, "a", "role", "web")))
	full.Store(true)
	second, third := j.add(update(t, 2, 1, "b", "role", "web")), j.add(update(t, 3, 1, "c", "role", "web"))
	require.ErrorIs(t, errors.Join(p.Apply([]streams.Message{second}), p.Apply([]streams.Message{third})), syscall.ENOSPC)
	require.ErrorIs(t, p.Close(), syscall.ENOSPC)
}
