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
// bounds it with a soft limit that follows what is in use, collects seldom
// below that limit, and gives memory back once things are quiet.
type gcTuner struct {
	every   time.Duration
	read    func() (live, allocated uint64) // bytes: live after the last collection; allocated since the start
	limit   func(int64) int64
	release func()

	last  uint64 // allocated at the last look
	work  uint64 // allocated at looks that were not quiet, since rests began anew
	given int    // rests that are over; all of them: nothing to give back
	rest  int    // quiet looks in a row
}

const (
	// leastLimit is the soft limit of a small plane.
	leastLimit = 400 << 20
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
	if os.Getenv("GOMEMLIMIT") != "" || os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(seldom)
	t := gcTuner{every: time.Second, read: readHeap, limit: debug.SetMemoryLimit, release: debug.FreeOSMemory, given: len(rests)}
	t.run(ctx)
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
	live, allocated := t.read()
	t.limit(max(leastLimit, int64(live+live*3/4)))
	grown := allocated - t.last
	t.last = allocated
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

func readHeap() (live, allocated uint64) {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64(), s[1].Value.Uint64()
}
