package main

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMemoryIsGivenBackOnceThingsAreQuiet(t *testing.T) {
	var h heap
	var limits []int64
	released := 0
	m := gcTuner{
		read:    func() heap { return h },
		room:    func() int64 { return 0 },
		limit:   func(n int64) int64 { limits = append(limits, n); return 0 },
		release: func() { released++ },
		given:   len(rests),
	}
	for range 30 {
		m.look()
	}
	require.Zero(t, released, "nothing to give back before anything was done")
	for range 5 {
		h.allocated += 100 << 20
		m.look()
	}
	require.Zero(t, released, "not while there is work")
	m.look()
	require.Zero(t, released)
	m.look()
	require.Equal(t, 1, released)
	for range 300 {
		h.allocated += 1 << 20
		m.look()
	}
	require.Equal(t, len(rests), released, "a few times more, and then no more")

	require.Equal(t, int64(leastGarbage), limits[0])
	h.live = 1 << 28
	m.look()
	require.Equal(t, int64(2<<28), limits[len(limits)-1], "little that is live does not mean little room for garbage")
	h.live = 1 << 30
	m.look()
	require.Equal(t, int64(7<<28), limits[len(limits)-1], "the limit follows what is in use")
	h.beside = 1 << 28
	m.look()
	require.Equal(t, int64(8<<28), limits[len(limits)-1], "and what it counts beside the heap takes no room from garbage")
}

// Very many goroutines take memory that is no heap, and that the limit counts.
func TestWhatIsBesideTheHeapIsRead(t *testing.T) {
	before := readHeap()
	end := make(chan struct{})
	const goroutines = 2000
	var ready, done sync.WaitGroup
	for range goroutines {
		ready.Add(1)
		done.Go(func() { ready.Done(); <-end })
	}
	ready.Wait()
	after := readHeap()
	close(end)
	done.Wait()
	require.Greater(t, before.beside, uint64(0))
	require.Greater(t, after.allocated, before.allocated)
	const stack = 2 << 10
	require.Greater(t, after.beside, uint64(goroutines*stack))
}

// A fleet of agents keeps a plane on the edge of being quiet.
func TestMemoryIsNotGivenBackAtEachTurn(t *testing.T) {
	var allocated uint64
	released := 0
	m := gcTuner{
		read:    func() heap { return heap{allocated: allocated} },
		room:    func() int64 { return 0 },
		limit:   func(int64) int64 { return 0 },
		release: func() { released++ },
		given:   len(rests),
	}
	for i := range 120 {
		allocated += quietBytes + 1<<20*uint64(i%4/2) - 1
		m.look()
	}
	require.LessOrEqual(t, released, 4)
}

func TestMemoryStaysWithinTheControlGroup(t *testing.T) {
	var limits []int64
	var others int64
	m := gcTuner{
		read:    func() heap { return heap{live: 100 << 20} },
		room:    func() int64 { return roomBeside(256<<20, others) },
		limit:   func(n int64) int64 { limits = append(limits, n); return 0 },
		release: func() {},
		given:   len(rests),
	}
	m.look()
	require.Equal(t, int64(256<<20)-(256<<20)/10, limits[0], "not the limit of a plane that has the machine")
	others = 64 << 20
	m.look()
	require.Equal(t, limits[0]-(64<<20), limits[1], "less what the store takes")
	others = 250 << 20
	m.look()
	require.Equal(t, int64(64<<20), limits[2], "and still enough to work")
}

// What a worker's limit must leave room for is what its group holds: commands in its container, too.
func TestTheGroupsMemoryIsRead(t *testing.T) {
	for name, c := range map[string]struct{ own, file, stat string }{
		"version 2":                          {"0::/pod/worker\n", "pod/worker/memory.stat", "anon 4096\nfile 8192\n"},
		"version 2, in a container":          {"0::/\n", "memory.stat", "anon 4096\nanon_thp 1\n"},
		"version 1":                          {"9:cpu,cpuacct:/x\n4:memory:/pod/worker\n0::/\n", "memory/pod/worker/memory.stat", "rss 1024\ntotal_rss 4096\n"},
		"version 1, by a name of the host's": {"4:memory:/host/pod\n", "memory/memory.stat", "cache 1\ntotal_rss 4096\n"},
	} {
		t.Run(name, func(t *testing.T) {
			mounted := t.TempDir()
			file := filepath.Join(mounted, filepath.FromSlash(c.file))
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
			require.NoError(t, os.WriteFile(file, []byte(c.stat), 0o600))
			require.Equal(t, file, groupStat(c.own, mounted))
			require.Equal(t, int64(4096), anonymous(file))
		})
	}
	require.Empty(t, groupStat("0::/pod\n", t.TempDir()))
	require.Zero(t, anonymous(""))
}
