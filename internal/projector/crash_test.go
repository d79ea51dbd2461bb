package projector

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/gen"
)

var (
	crashes    = flag.Int("crash.seeds", gen.Worlds(10), "seeds of crashes in memory")
	crashFirst = flag.Uint64("crash.first", 1, "the first of them")
	failEvery  = flag.Int("fail.every", 97, "of the writes of a small run, every which one is to fail")
)

// chronicle is a log and what its fold holds after each event.
type chronicle struct {
	msgs  []streams.Message
	after []string
}

// chronicleOf draws a log. All of it is accepted.
func chronicleOf(t *testing.T, seed uint64) chronicle {
	c := chronicle{msgs: events(seed)}
	p := openFresh(t)
	for _, m := range c.msgs {
		require.NoError(t, p.Apply([]streams.Message{m}))
		c.after = append(c.after, holds(t, p))
	}
	return c
}

func events(seed uint64) (msgs []streams.Message) {
	g := gen.New(seed)
	scribe := gen.NewScribe("00000000-0000-4000-8000-000000000000", seed)
	for i, s := range g.WithRollouts(g.History(g.World(5, 6), 45)) {
		e := scribe.Write(s)
		msgs = append(msgs, streams.Message{Seq: uint64(i + 1), Subject: e.Subject, Body: e.Body, Time: born.Add(time.Duration(i) * time.Second)})
	}
	return msgs
}

// holds is everything a store holds, the kept past included, as one text.
func holds(t *testing.T, p *Projector) string {
	d, err := p.Digest(context.Background())
	require.NoError(t, err)
	b := fmt.Appendf(nil, "%d %x %x %v", d.Seq, d.Sum, p.cursor.chain, p.cursor.rejected)
	for _, r := range keptRecords(p) {
		b = fmt.Appendf(b, " %x %x", r.key(nil), r.value(nil))
	}
	return string(b)
}

// striker is a file system in memory that remembers what a crash at one of its
// writes would leave.
type striker struct {
	mem  *vfs.MemFS
	at   atomic.Int64 // writes until then
	cfg  vfs.CrashCloneCfg
	left atomic.Pointer[vfs.MemFS] // what the crash left
	then atomic.Uint64             // what was flushed when it struck
	seen atomic.Uint64             // what is flushed
}

func (s *striker) strike(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && s.at.Add(-1) == 0 {
		s.then.Store(s.seen.Load())
		s.left.Store(s.mem.CrashClone(s.cfg))
	}
	return nil
}

// TestACrashLeavesAPrefixOfTheFold lets a machine lose power at random writes,
// with none, half or all of what was not synced, and folds on, now event by event
// and now in bulk: what was flushed is there, and at each sequence the store, its
// kept past included, is what one fold without a crash holds.
func TestACrashLeavesAPrefixOfTheFold(t *testing.T) {
	gen.Unraced()
	var logs []chronicle
	for i := range min(6, (*crashes+2)/3) {
		logs = append(logs, chronicleOf(t, uint64(i)+*crashFirst))
	}
	struck := 0
	for seed := *crashFirst; seed < *crashFirst+uint64(*crashes); seed++ {
		struck += crashedFold(t, seed, logs[seed%uint64(len(logs))])
	}
	t.Logf("seeds %d to %d: %d crashes", *crashFirst, *crashFirst+uint64(*crashes)-1, struck)
	require.Greater(t, struck, *crashes/2, "most seeds crash")
}

// crashedFold folds a chronicle over one or more crashes and counts them.
func crashedFold(t *testing.T, seed uint64, c chronicle) (struck int) {
	r := rand.New(rand.NewPCG(seed, 4))
	fs := vfs.NewCrashableMem()
	for life := 0; ; life++ {
		s := &striker{mem: fs, cfg: vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 50, 100}[r.IntN(3)], RNG: rand.New(rand.NewPCG(seed, uint64(life)))}}
		if life < 3 {
			s.at.Store(1 + r.Int64N(60))
		}
		opt := Options{Partitions: testPartitions, Created: born, fs: errorfs.Wrap(fs, errorfs.InjectorFunc(s.strike)), flush: 1 << r.IntN(14), bulk: 5}
		p, err := Open("store", opt)
		require.NoError(t, err, "seed %d, life %d", seed, life)
		at := int(p.Applied())
		if at > 0 {
			require.Equal(t, c.after[at-1], holds(t, p), "seed %d, life %d, at %d", seed, life, at)
		}
		for s.left.Load() == nil && at < len(c.msgs) {
			at = c.goOn(t, p, s, r, at)
		}
		if s.left.Load() == nil {
			require.Equal(t, c.after[at-1], holds(t, p), "seed %d, at the end", seed)
			require.NoError(t, p.Close())
			return struck
		}
		require.NoError(t, p.Close()) // on the file system that nobody will see again
		struck++
		fs = s.left.Load()
		again, err := Open("store", Options{Partitions: testPartitions, Created: born, fs: fs})
		require.NoError(t, err, "seed %d, life %d", seed, life)
		require.GreaterOrEqual(t, again.Applied(), s.then.Load(), "seed %d, life %d: flushed and lost", seed, life)
		require.NoError(t, again.Close())
	}
}

// goOn folds a few events more, in one of three ways, and says how far.
func (c chronicle) goOn(t *testing.T, p *Projector, s *striker, r *rand.Rand, at int) int {
	to := min(len(c.msgs), at+1+r.IntN(8))
	switch r.IntN(4) {
	case 0:
		require.NoError(t, p.flush())
		s.seen.Store(p.Applied())
		return at
	case 1:
		require.NoError(t, p.Rebuild(t.Context(), cutLog{batches: [][]streams.Message{c.msgs}}, uint64(to)))
	default:
		require.NoError(t, p.Apply(c.msgs[max(0, at-r.IntN(3)):to]))
	}
	return to
}

// TestAnyWriteMayFail lets the k-th write of a small run fail, for every k, in
// a process of its own: a store that cannot write ends its process. What was
// flushed before is there afterwards, and the fold goes on from it.
func TestAnyWriteMayFail(t *testing.T) {
	gen.Unraced()
	if k := os.Getenv("EDICT_TEST_FAIL"); k != "" {
		failAt(t, k, os.Getenv("EDICT_TEST_STORE"), events(1))
		return
	}
	c := chronicleOf(t, 1)
	failed := 0
	for k := 1; ; k += *failEvery {
		dir := t.TempDir()
		cmd := exec.Command(os.Args[0], "-test.run", "^TestAnyWriteMayFail$", "-test.v")
		cmd.Env = append(os.Environ(), fmt.Sprint("EDICT_TEST_FAIL=", k), "EDICT_TEST_STORE="+dir)
		out, err := cmd.CombinedOutput()
		flushed := 0
		for line := range strings.Lines(string(out)) {
			_, _ = fmt.Sscanf(line, "flushed %d", &flushed)
		}
		p, oerr := Open(dir, Options{Partitions: testPartitions, Created: born})
		require.NoError(t, oerr, "write %d failed: %s", k, out)
		at := int(p.Applied())
		require.GreaterOrEqual(t, at, flushed, "write %d failed: flushed and lost", k)
		if at > 0 {
			require.Equal(t, c.after[at-1], holds(t, p), "write %d failed", k)
		}
		require.NoError(t, p.Apply(c.msgs))
		require.Equal(t, c.after[len(c.after)-1], holds(t, p), "write %d failed, and the fold went on", k)
		require.NoError(t, p.Close())
		if err == nil && strings.Contains(string(out), "nothing failed") {
			break
		}
		failed++
	}
	t.Logf("%d writes failed, each in a run of its own", failed)
	require.Positive(t, failed)
}

// failAt folds with one write that fails, telling what was flushed.
func failAt(t *testing.T, which, dir string, msgs []streams.Message) {
	var left atomic.Int64
	k, err := strconv.ParseInt(which, 10, 64)
	require.NoError(t, err)
	left.Store(k)
	fs := errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && left.Add(-1) == 0 {
			return errorfs.ErrInjected
		}
		return nil
	}))
	p, err := Open(dir, Options{Partitions: testPartitions, Created: born, fs: fs, flush: 200})
	if err != nil {
		return // and nothing was flushed
	}
	for at := 0; at < len(msgs); at += 3 {
		to := min(at+3, len(msgs))
		if p.Apply(msgs[at:to]) != nil {
			return
		}
		if at%4 == 0 {
			if p.flush() != nil {
				return
			}
			fmt.Println("flushed", to)
		}
	}
	if p.Close() == nil && left.Load() > 0 {
		fmt.Println("nothing failed")
	}
}

// TestAProcessThatEndsWithItsStoreSaysWhy, and says so also where the store has no log: a command
// must not end without a word, nor with the exit code of a difference.
func TestAProcessThatEndsWithItsStoreSaysWhy(t *testing.T) {
	if os.Getenv("EDICT_TEST_FULL") != "" {
		var full atomic.Bool
		fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if full.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite && strings.Contains(op.Path, "MANIFEST") {
				return syscall.ENOSPC
			}
			return nil
		}))
		p, err := Open("the-store", Options{Partitions: testPartitions, Created: born, fs: fs, Apart: true})
		require.NoError(t, err)
		full.Store(true)
		_ = errors.Join(p.Apply(events(1)), p.flush()) // which ends the process
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^TestAProcessThatEndsWithItsStoreSaysWhy$")
	cmd.Env = append(os.Environ(), "EDICT_TEST_FULL=1")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, "%s", out)
	require.Equal(t, 7, exit.ExitCode(), "%s", out)
	require.Contains(t, string(out), "no space left on device")
	require.Contains(t, string(out), "the-store")
}

// TestAStoreOpensAfterAPowerFailureInItsFirstMoments lets the power fail at
// each write of a start, where directory entries reach the disk in any order.
func TestAStoreOpensAfterAPowerFailureInItsFirstMoments(t *testing.T) {
	gen.Unraced()
	for k := 1; k <= 30; k++ {
		for draw := range uint64(2) {
			fs := vfs.NewCrashableMem()
			require.NoError(t, disk{fs}.open(t).Close())
			s := &striker{mem: fs, cfg: vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(draw, 10))}}
			s.at.Store(int64(k))
			require.NoError(t, disk{errorfs.Wrap(fs, errorfs.InjectorFunc(s.strike))}.open(t).Close())
			if s.left.Load() == nil {
				return // a start has fewer writes
			}
			p, err := Open("store", Options{Partitions: testPartitions, Created: born, fs: s.left.Load()})
			require.NoError(t, err, "power failed at write %d, draw %d", k, draw)
			require.NoError(t, p.Close())
		}
	}
}
