package relay

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/output"
)

// member is one process in the register, inside a bubble.
type member struct {
	*Workers
	leases *fakeLeases
	stop   func() // in order
	mu     sync.Mutex
	self   Worker
}

func (m *member) set(f func(*Worker)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(&m.self)
}

const memberParts = 12

func join(t *testing.T, b *fakeBucket, owner, id string) *member {
	t.Helper()
	return joinAs(t, b, owner, id, "worker "+id, slog.New(slog.DiscardHandler))
}

func joinAs(t *testing.T, b *fakeBucket, owner, id, name string, log *slog.Logger) *member {
	t.Helper()
	m := &member{leases: b.client(), self: Worker{ID: id, Name: name, Shares: true}}
	m.Workers = NewWorkers(WorkersOptions{
		Log:   log,
		Owner: owner, Partitions: memberParts,
		Open: func(context.Context) (Leases, error) { return m.leases, nil },
		Self: func() Worker {
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.self
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	m.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
	})
	t.Cleanup(m.stop)
	return m
}

// held are the partitions that m may publish at this moment.
func (m *member) held() []int {
	ids, _ := m.Mine()
	return slices.Clone(ids)
}

// split requires that the members hold all partitions, each one of them, alike.
func split(t *testing.T, members ...*member) {
	t.Helper()
	synctest.Wait()
	var all []int
	for _, m := range members {
		require.Len(t, m.held(), memberParts/len(members), "%v", m.Self())
		all = append(all, m.held()...)
	}
	slices.Sort(all)
	require.Len(t, slices.Compact(all), memberParts)
}

func TestWorkersShareAsTheyComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBucket()
		x := join(t, b, "1", "x")
		split(t, x)
		y := join(t, b, "2", "y")
		split(t, x, y)
		_, changed := x.Mine()
		time.Sleep(time.Minute) // renewals change nothing
		split(t, x, y)
		select {
		case <-changed:
			t.Fatal("a renewal was taken for news")
		default:
		}
		z := join(t, b, "3", "z")
		split(t, x, y, z)
		<-changed

		z.set(func(w *Worker) { w.Shares = false }) // it lags, and knows it
		time.Sleep(time.Second)
		require.Empty(t, z.held())
		split(t, x, y)
		require.Len(t, x.Live(), 3)
		z.set(func(w *Worker) { w.Shares = true })
		time.Sleep(time.Second)
		split(t, x, y, z)
		y.stop()
		split(t, x, z)
		require.Len(t, x.Live(), 2)
	})
}

// Names are for people, so two processes of one name work. Each is told once that there is
// another, and only when it knows that the other lives: not of a lease that outlives its process.
func TestTwoWorkersOfOneNameAreToldSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const told = "another live worker has the same name"
		b := newFakeBucket()
		var first, second, third, fourth output.Buffer
		x := joinLogged(t, b, "1", "x", "w1", &first)
		synctest.Wait()
		x.leases.block() // as if it were killed: its lease stands for a while
		time.Sleep(time.Second)
		joinLogged(t, b, "2", "y", "w1", &second)
		time.Sleep(time.Minute)
		require.Zero(t, strings.Count(second.String(), told), "the other is dead")
		z := joinLogged(t, b, "3", "z", "w1", &third)
		joinLogged(t, b, "4", "other", "w2", &fourth)
		time.Sleep(time.Minute)
		require.Equal(t, 1, strings.Count(third.String(), told))
		require.Equal(t, 1, strings.Count(second.String(), told))
		require.Zero(t, strings.Count(fourth.String(), told), "it has a name of its own")
		z.stop()
		time.Sleep(time.Minute)
		require.Equal(t, 1, strings.Count(second.String(), told))
	})
}

// NATS servers without a majority may stay so for hours, and every worker then tries twice a
// second or so.
func TestLeasesThatStayLostAreSaidOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const told = "the workers' leases are lost"
		b := newFakeBucket()
		var out output.Buffer
		leases := b.client()
		var away atomic.Bool
		w := NewWorkers(WorkersOptions{
			Log: slog.New(slog.NewTextHandler(&out, nil)), Owner: "1", Partitions: memberParts,
			Open: func(context.Context) (Leases, error) {
				if away.Load() {
					return nil, streams.ErrNoAnswer
				}
				return leases, nil
			},
			Self: func() Worker { return Worker{ID: "x", Name: "w1", Shares: true} },
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		lose := func(d time.Duration) (lines int) {
			before := strings.Count(out.String(), told)
			away.Store(true)
			unblock := leases.block()
			time.Sleep(d)
			away.Store(false)
			unblock()
			time.Sleep(DefaultLeaseTTL)
			ids, _ := w.Mine()
			require.Len(t, ids, memberParts, "it works again")
			return strings.Count(out.String(), told) - before
		}
		n := lose(5 * time.Minute)
		require.GreaterOrEqual(t, n, 4)
		require.LessOrEqual(t, n, 6)
		require.Equal(t, 1, lose(40*time.Second), "another loss is said at once, however soon after the first")
		cancel()
		require.NoError(t, <-done)
	})
}

// joinLogged is joinAs, with its log.
func joinLogged(t *testing.T, b *fakeBucket, owner, id, name string, log *output.Buffer) *member {
	t.Helper()
	return joinAs(t, b, owner, id, name, slog.New(slog.NewTextHandler(log, nil)))
}

// However late the server says that a lease is over: the others know by their
// own clocks, the holder stops a second before them, and it comes back with a
// lease of its own, not with what it knew.
func TestAWorkerThatIsCutOffHoldsNothingBeforeOthersHoldIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBucket()
		b.late = 20 * time.Second
		x, y := join(t, b, "1", "x"), join(t, b, "2", "y")
		split(t, x, y)
		had := y.held()
		cutAt := time.Now()
		unblock := y.leases.block()
		var let, taken time.Duration
		for taken == 0 {
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
			require.Less(t, time.Since(cutAt), time.Minute)
			for _, p := range had {
				require.False(t, slices.Contains(x.held(), p) && slices.Contains(y.held(), p), "partition %d has two holders %v after the cut", p, time.Since(cutAt))
			}
			if let == 0 && len(y.held()) == 0 {
				let = time.Since(cutAt)
			}
			if len(x.held()) == memberParts {
				taken = time.Since(cutAt)
			}
		}
		require.LessOrEqual(t, let, 9*time.Second)
		require.GreaterOrEqual(t, taken-let, 980*time.Millisecond)
		require.LessOrEqual(t, taken, DefaultLeaseTTL+time.Second/2)

		unblock()
		time.Sleep(time.Second)
		split(t, x, y)
		require.Equal(t, had, y.held())
	})
}

// A worker that slept knows everybody as dead, by its own clock. It must hear
// of them before it believes that.
func TestAWorkerThatSleptDoesNotTakeEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBucket()
		x, y, z := join(t, b, "1", "x"), join(t, b, "2", "y"), join(t, b, "3", "z")
		split(t, x, y, z)
		z.leases.set(func() { z.leases.deaf, z.leases.drip = true, true })
		time.Sleep(5 * time.Second) // what is said now, by itself too, it will hear when it wakes
		unblock := z.leases.block()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Empty(t, z.Live())
		z.leases.set(func() { z.leases.deaf = false })
		unblock()
		for range 400 {
			time.Sleep(5 * time.Millisecond)
			synctest.Wait()
			require.LessOrEqual(t, len(z.held()), memberParts/3)
		}
		split(t, x, y, z)
	})
}

func TestOneThatStartsAgainNeedNotWaitForItsOwnLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBucket()
		x, y := join(t, b, "1", "x"), join(t, b, "2", "y")
		split(t, x, y)
		had := y.held()
		y.leases.block() // killed
		again := join(t, b, "3", "y")
		split(t, x, again)
		require.Equal(t, had, again.held())
		require.Len(t, x.Live(), 2)
	})
}

// One that comes counts the leases of the dead from when they were renewed, as
// the others do, and not from when it saw them.
func TestANewcomerDividesAsTheOthersDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBucket()
		b.late = time.Minute
		x, y := join(t, b, "1", "x"), join(t, b, "2", "y")
		split(t, x, y)
		y.leases.block() // killed
		time.Sleep(DefaultLeaseTTL - time.Second)
		z := join(t, b, "3", "z")
		time.Sleep(1500 * time.Millisecond)
		split(t, x, z)
	})
}

func TestPartitionsThatAWorkerWasToldAreLeftToIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBucket()
		x := join(t, b, "1", "x")
		split(t, x)
		y := join(t, b, "2", "y")
		y.set(func(w *Worker) { w.Shares, w.Partitions = false, []int{0, 1, 2} })
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []int{3, 4, 5, 6, 7, 8, 9, 10, 11}, x.held())
		require.Empty(t, y.held(), "it goes by what it was told, not by a share")
		y.stop()
		split(t, x)
	})
}

// A renewal whose answer is lost was a renewal.
func TestALostAnswerCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBucket()
		x := join(t, b, "1", "x")
		split(t, x)
		_, changed := x.Mine()
		for range 4 {
			unblock := x.leases.block()
			time.Sleep(DefaultLeaseTTL / 2) // a renewal was due and is given up
			unblock()
			time.Sleep(time.Second)
			x.leases.set(func() { x.leases.loses = true })
			time.Sleep(DefaultLeaseTTL / 2) // a renewal is stored, and nobody says so
			x.leases.set(func() { x.leases.loses = false })
			time.Sleep(time.Second)
		}
		split(t, x)
		select {
		case <-changed:
			t.Fatal("partitions were let go")
		default:
		}
	})
}

// The server counts a lease from when it stored it, however long its answer
// took to come.
func TestASlowAnswerMakesNoLeaseLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBucket()
		x := join(t, b, "1", "x")
		split(t, x)
		x.leases.set(func() { x.leases.slow = 3 * time.Second })
		time.Sleep(time.Minute)
		synctest.Wait()
		x.leases.block()
		for len(x.held()) > 0 {
			b.mu.Lock()
			expires := b.keys["1"].expires
			b.mu.Unlock()
			require.GreaterOrEqual(t, time.Until(expires), time.Second)
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
		}
	})
}

// published has m say up to where it published.
func (m *member) published(log string, marks map[int]uint64) {
	m.set(func(w *Worker) { w.Published = &Published{Log: log, Partitions: marks} })
}

func marksOf(m *member) map[int]uint64 {
	marks := map[int]uint64{}
	for p := range memberParts {
		if seq, ok := m.Mark(p); ok {
			marks[p] = seq
		}
	}
	return marks
}

// Whoever takes a partition over knows up to where it was published: by one that
// stopped, by one that was killed, by an earlier start of its own; of another
// log it knows nothing.
func TestAMarkOutlivesWhoMadeIt(t *testing.T) {
	const log = "log"
	for name, end := range map[string]func(b *fakeBucket, x *member){
		"stopped": func(_ *fakeBucket, x *member) { x.stop() },
		"killed": func(_ *fakeBucket, x *member) {
			time.Sleep(DefaultLeaseTTL / 2)
			x.leases.block()
			x.stop()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newFakeBucket()
				x, y := join(t, b, "1", "x"), join(t, b, "2", "y")
				x.opt.LogID, y.opt.LogID = log, log
				split(t, x, y)
				x.published(log, map[int]uint64{1: 100, 2: 90})
				y.published("another", map[int]uint64{5: 7})
				time.Sleep(DefaultLeaseTTL)
				synctest.Wait()
				require.Equal(t, map[int]uint64{1: 100, 2: 90}, marksOf(y))
				require.Equal(t, map[int]uint64{1: 100, 2: 90}, marksOf(x))
				x.published(log, map[int]uint64{1: 120, 2: 80})
				end(b, x)
				time.Sleep(2 * DefaultLeaseTTL)
				split(t, y)
				require.Equal(t, map[int]uint64{1: 120, 2: 90}, marksOf(y), "the last word counts, and none falls")
			})
		})
	}
}

func TestAStartKnowsTheMarksOfTheOneBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBucket()
		x := join(t, b, "1", "x")
		x.published("", map[int]uint64{3: 30})
		time.Sleep(DefaultLeaseTTL)
		x.leases.block() // killed: its lease stands
		x.stop()
		again := join(t, b, "2", "x")
		split(t, again)
		require.Equal(t, map[int]uint64{3: 30}, marksOf(again))
	})
	kept := NewWorkers(WorkersOptions{Marks: map[int]uint64{3: 30}})
	seq, ok := kept.Mark(3)
	require.True(t, ok)
	require.EqualValues(t, 30, seq, "a file of its own said so")
}

func TestAllKnowWhoPublishesWhat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBucket()
		x, y, z := join(t, b, "1", "x"), join(t, b, "2", "y"), join(t, b, "3", "z")
		z.set(func(w *Worker) { w.Shares, w.Partitions = false, []int{0, 3} })
		x.published("", map[int]uint64{1: 11})
		time.Sleep(DefaultLeaseTTL)
		synctest.Wait()
		require.Equal(t, x.Publishing(), y.Publishing())
		all := x.Publishing()
		require.Len(t, all, memberParts)
		owners := map[string][]int{}
		for p, s := range all {
			require.Equal(t, p, s.Partition)
			owners[s.Owner] = append(owners[s.Owner], p)
		}
		require.Equal(t, map[string][]int{"1": x.held(), "2": y.held(), "3": {0, 3}}, owners)
		require.EqualValues(t, 11, all[1].UpTo)
	})
	nobody := NewWorkers(WorkersOptions{Partitions: 2})
	require.Equal(t, []Publishing{{Partition: 0}, {Partition: 1}}, nobody.Publishing())
}

// A lease is what its writer says: one about partitions that there are not harms nobody.
func TestALeaseOfPartitionsThatThereAreNot(t *testing.T) {
	w := NewWorkers(WorkersOptions{Owner: "a", Partitions: 2, Self: func() Worker { return Worker{} }})
	w.see([]streams.Entry{{Key: "b", Value: []byte(`{"partitions":[-1,1,2]}`), Revision: 1, Time: time.Now()}})
	require.Equal(t, []Publishing{{Partition: 0}, {Partition: 1, Owner: "b"}}, w.Publishing())
}
