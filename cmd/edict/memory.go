package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// A burst, such as a fleet being registered, leaves several times the memory
// that the plane needs at rest, and the runtime is slow to give it back. gcTuner
// bounds it with a soft limit that follows what is in use and stays within the
// process's control group, collects seldom below that limit, and gives memory
// back once things are quiet.
type gcTuner struct {
	every   time.Duration
	read    func() heap
	room    func() int64 // what a control group leaves to the collector, in bytes; 0: there is no bound
	limit   func(int64) int64
	release func()

	last  uint64 // allocated at the last look
	work  uint64 // allocated at looks that were not quiet, since rests began anew
	given int    // rests that are over; all of them: nothing to give back
	rest  int    // quiet looks in a row
}

// heap is what the runtime says of its memory, in bytes.
type heap struct {
	live      uint64 // after the last collection
	beside    uint64 // stacks, parts of spans that no object fits in, the runtime's own: the limit counts them
	allocated uint64 // since the start
}

const (
	// leastGarbage is what may gather in any plane before the soft limit has it collected.
	// Each collection reads all that is live, stacks included: with very many streams it is a
	// tenth of what the plane does, where it comes several times a second.
	leastGarbage = 256 << 20
	// seldom is the garbage, in percent of what is live, that may gather below
	// the limit before it is collected.
	seldom = 300
	// quietBytes is what a plane at rest may allocate between two looks.
	quietBytes = 4 << 20
	// burstBytes is the work after which there is something to give back. Giving
	// back is a collection: a plane that is busy and quiet by turns must not make
	// one at each turn.
	burstBytes = 128 << 20
)

// rests are the quiet looks in a row after which memory is given back: soon,
// and again as the embedded server lets go, block by block, of what it keeps
// for ten seconds after the last use.
var rests = []int{2, 12, 25, 60}

// keepThrifty runs until ctx ends, unless the operator has tuned the collector
// with GOMEMLIMIT or GOGC.
func keepThrifty(ctx context.Context) {
	if tuned() {
		return
	}
	debug.SetGCPercent(seldom)
	t := gcTuner{every: time.Second, read: readHeap, room: roomInGroup(), limit: debug.SetMemoryLimit, release: debug.FreeOSMemory, given: len(rests)}
	t.run(ctx)
}

// tuned reports whether the operator has tuned the collector.
func tuned() bool { return os.Getenv("GOMEMLIMIT") != "" || os.Getenv("GOGC") != "" }

// staysWithinGroup has a command that runs in a worker's container take what the worker leaves
// there: one that reads a log of large events would be killed else, or have the worker killed.
func staysWithinGroup() {
	if tuned() {
		return
	}
	if room := roomInGroup()(); room > 0 {
		debug.SetMemoryLimit(room)
	}
}

func (t *gcTuner) run(ctx context.Context) {
	ticker := time.NewTicker(t.every)
	defer ticker.Stop()
	for ctx.Err() == nil {
		t.look()
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

func (t *gcTuner) look() {
	h := t.read()
	// Without what is beside the heap the limit of a plane with very many streams would
	// leave no room for garbage: one collection would follow the other.
	limit := int64(h.live + max(h.live*3/4, leastGarbage) + h.beside)
	if room := t.room(); room > 0 {
		limit = min(limit, room)
	}
	t.limit(limit)
	grown := h.allocated - t.last
	t.last = h.allocated
	if grown >= quietBytes {
		t.rest = 0
		if t.work += grown; t.work >= burstBytes {
			t.work, t.given = 0, 0
		}
		return
	}
	t.rest++
	if t.given < len(rests) && t.rest >= rests[t.given] {
		t.given++
		t.release()
	}
}

func readHeap() heap {
	names := []string{
		"/gc/heap/live:bytes", "/gc/heap/allocs:bytes", "/memory/classes/total:bytes",
		"/memory/classes/heap/objects:bytes", "/memory/classes/heap/free:bytes", "/memory/classes/heap/released:bytes",
	}
	list := make([]metrics.Sample, len(names))
	for i, name := range names {
		list[i].Name = name
	}
	metrics.Read(list)
	n := func(i int) uint64 { return list[i].Value.Uint64() }
	h := heap{live: n(0), allocated: n(1)}
	if used := n(3) + n(4) + n(5); n(2) > used {
		h.beside = n(2) - used
	}
	return h
}
