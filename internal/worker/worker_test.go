package worker

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/edictdev/edict/internal/datadir"
	"github.com/edictdev/edict/internal/relay"
	"github.com/edictdev/edict/internal/streams"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type fold struct{ applied uint64 }

func (f fold) Applied() uint64 { return f.applied }
func (fold) Links() (all []streams.Link) {
	for i := range uint64(10) {
		all = append(all, streams.Link{Log: "1", Seq: 1000 * (i + 1), Hash: [32]byte{byte(i)}})
	}
	return all
}

type log struct{}

func (log) ID() string   { return "1" }
func (log) Base() uint64 { return 7 }

type keys struct{}

func (keys) Held() (string, []string) { return "k1", []string{"k1", "k2"} }

func conn(t *testing.T) *streams.Conn {
	server, err := streams.StartServer(streams.ServerOptions{Dir: t.TempDir(), Relaxed: true})
	require.NoError(t, err)
	t.Cleanup(server.Close)
	c, err := streams.Connect(t.Context(), streams.ConnectOptions{Server: server})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func options(t *testing.T, c *streams.Conn, name string) Options {
	return Options{
		Dir: datadir.Dir(t.TempDir()), Name: name, HTTP: name + ":80", Partitions: 4, Log: log{}, Fold: fold{applied: 5}, Keys: keys{},
		Progress: &relay.Progress{}, Open: LeasesOn(c, true), Damaged: func() error { return nil },
		Compare: func(string, []streams.Link) {}, Logger: slog.New(slog.DiscardHandler),
	}
}

// run makes a worker and runs it until the test ends.
func run(t *testing.T, opt Options) *Worker {
	w, err := New(opt)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() { stop(); require.NoError(t, <-ended) })
	return w
}

func eventually(t *testing.T, f func() bool) {
	t.Helper()
	require.Eventually(t, f, 20*time.Second, time.Millisecond)
}

func TestAWorkerPublishesOnceItHasCaughtUp(t *testing.T) {
	w := run(t, options(t, conn(t), "a"))
	eventually(t, func() bool { return len(w.Live()) == 1 })
	require.False(t, w.Leads())
	require.ErrorContains(t, w.Unassigned(), "partition 0")
	w.CaughtUp()
	require.True(t, w.Self().Shares)
}

func TestAWorkerOfADamagedLogWantsNoPartitions(t *testing.T) {
	opt := options(t, conn(t), "a")
	opt.Announce = []int{1, 2}
	var damage error
	opt.Damaged = func() error { return damage }
	w, err := New(opt)
	require.NoError(t, err)
	require.Nil(t, w.Self().Partitions, "nor before it has caught up")
	w.CaughtUp()
	require.Equal(t, []int{1, 2}, w.Self().Partitions)
	damage = errors.New("a hole")
	require.Nil(t, w.Self().Partitions)
}

func TestWorkersKnowEachOther(t *testing.T) {
	c := conn(t)
	told := make(chan []streams.Link, 100)
	one := options(t, c, "a")
	one.Compare = func(worker string, links []streams.Link) {
		if worker == "b" {
			told <- links
		}
	}
	a := run(t, one)
	_, err := a.Others()
	if err != nil { // it may have seen its own lease already
		require.ErrorIs(t, err, errOthersUnknown)
	}
	b := run(t, options(t, c, "b"))
	eventually(t, func() bool { return len(a.Live()) == 2 && len(b.Live()) == 2 })
	others, err := a.Others()
	require.NoError(t, err)
	require.Len(t, others, 1)
	require.Equal(t, "b", others[0].Name)
	require.Equal(t, []string{"k1", "k2"}, others[0].Keys)
	list := a.List(9)
	require.Len(t, list, 2)
	require.EqualValues(t, 4, list[0].Lag)
	links := <-told
	require.Len(t, links, maxLinks, "the last ones")
	require.EqualValues(t, 10_000, links[maxLinks-1].Seq)
	partitions, err := a.Partitions()
	require.NoError(t, err)
	require.Len(t, partitions, 4)
}

// What came since another worker was heard is not what it is behind.
func TestAWorkerIsNotBehindWhatCameSinceItsLease(t *testing.T) {
	opt, applied := options(t, conn(t), "a"), &fold{applied: 5}
	opt.Fold = applied
	w, err := New(opt)
	require.NoError(t, err)
	keptUp, late := relay.Worker{Owner: "kept up", Applied: 5}, relay.Worker{Owner: "late", Applied: 2}
	w.heard(keptUp)
	w.heard(late)
	applied.applied = 8005 // an import, within the time of a lease
	require.Zero(t, w.behind(keptUp, 8005))
	require.EqualValues(t, 3, w.behind(late, 8005))
	require.EqualValues(t, 10, w.behind(keptUp, 8015), "this worker has not folded these either")
	require.Zero(t, w.behind(relay.Worker{Owner: "kept up", Applied: 9000}, 8015), "renewed meanwhile")
	w.heard(keptUp)
	require.EqualValues(t, 8000, w.behind(keptUp, 8005), "it was heard again and stands still")
	require.EqualValues(t, 8000, w.behind(relay.Worker{Owner: "unheard", Applied: 5}, 8005))
}

// A name is for people; what a worker publishes is told by its owner.
func TestPartitionsSayWhichStartOfAWorkerPublishesThem(t *testing.T) {
	c := conn(t)
	a, b := run(t, options(t, c, "same")), run(t, options(t, c, "same"))
	a.CaughtUp()
	b.CaughtUp()
	shares := func() map[string]int {
		all, err := a.Partitions()
		require.NoError(t, err)
		counts := map[string]int{}
		for _, p := range all {
			counts[p.Owner]++
		}
		return counts
	}
	eventually(t, func() bool { return shares()[a.owner] == 2 && shares()[b.owner] == 2 })
}

func TestALinkThatCannotBeReadIsLeftOut(t *testing.T) {
	good := formatLinks([]streams.Link{{Log: "1", Seq: 1000, Hash: [32]byte{1}}})
	require.Equal(t, []streams.Link{{Log: "1", Seq: 1000, Hash: [32]byte{1}}}, parseLinks(append(good,
		relay.WorkerLink{Log: "1", Seq: 2000, Hash: "unread"}, relay.WorkerLink{Log: "1", Seq: 3000, Hash: strings.Repeat("0", 10)})))
}
