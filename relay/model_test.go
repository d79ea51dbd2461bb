package relay

import (
	"context"
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edictdev/edict/streams"
)

// op is one thing that happens in a world.
type op struct{ kind, a, b, c, d int }

// opWeights says how often each kind of op comes; the order is that of do.
var opWeights = []int{10, 8, 8, 9, 4, 2, 6, 2, 1, 2, 1, 1, 6, 2}

// drawOps makes one run of a seed. The choice is even: what breaks such a
// protocol is rare turns in long runs, not small numbers.
func drawOps(seed uint64) []op {
	r := rand.New(rand.NewPCG(seed, 1))
	var kinds []int
	for kind, n := range opWeights {
		for range n {
			kinds = append(kinds, kind)
		}
	}
	ops := make([]op, 15+r.IntN(90))
	for i := range ops {
		ops[i] = op{kinds[r.IntN(len(kinds))], r.IntN(1 << 20), r.IntN(1 << 20), r.IntN(1 << 20), r.IntN(1 << 20)}
	}
	return ops
}

func (w *world) do(o op) {
	k := w.workers[o.a%len(w.workers)]
	p := o.b % worldParts
	w.server.fate = fates(o.d)
	k.limit = 2 + o.c%4
	switch o.kind {
	case 0:
		w.log.append(drawEvent(o))
	case 1:
		for range o.b%6 + 1 {
			k.store.fold()
		}
	case 2:
		k.advance(p)
	case 3: // a stretch without faults
		w.server.fate = nil
		for range o.d%5 + 1 {
			k.store.fold()
			k.advance(p)
		}
	case 4:
		w.server.land(o.b)
	case 5:
		if o.b%3 == 0 { // a lease is lost and won again
			k.announce()
		} else {
			k.crash()
		}
	case 6:
		k.pump(1 + o.c%5)
	case 7:
		if o.b%2 == 0 {
			k.save()
		} else {
			k.restore(o.c)
		}
	case 8:
		k.rebuild(o.b % 12)
	case 9:
		if at := k.store.Applied(); at > uint64(o.c%3) {
			k.dropEdges(p, at-uint64(o.c%3))
		}
	case 10:
		w.server.remake()
	case 11:
		w.pass([]time.Duration{day / 2, day / 2, 3 * day, 25 * day, 31 * day, 62 * day}[o.a%6], o.b%2 == 0)
	case 12:
		c := w.clients[o.b%len(w.clients)]
		if o.c%2 == 0 {
			c.detach()
		}
		if c.pull {
			c.pullFrom(k)
		}
		if c.at == nil {
			c.resume(k)
		}
	case 13: // an operator asks for a sync
		_, _ = askOnce(context.Background(), w.server.open(), k.relay.logID, p, worldParts) // refused, or in doubt: asked again, or not
	}
}

// fates lets about one batch in three have an accident.
func fates(n int) func([]streams.Outgoing) fate {
	return func([]streams.Outgoing) fate {
		return []fate{deliver, deliver, deliver, deliver, deliver, deliver, loseAck, loseAll, delay, delay, busy, tooLarge}[n%12]
	}
}

func drawEvent(o op) event {
	e := event{policy: o.b % worldPolicies, node: o.b % worldNodes, sel: o.c % 8, rules: 1 + o.d%2, label: o.c % 3}
	e.kind = []eventKind{revise, revise, revise, revise, deletePolicy, setLabel, setLabel, setLabel, setLabel, removeNode, release, release, withdraw}[o.a%13]
	if e.kind == deletePolicy && o.d%3 != 0 {
		e.kind = revise
	}
	return e
}

var modelRuns = flag.Int("model.runs", 1000, "random runs of the announcement protocol")

func TestPromisesHoldWhateverHappensBetweenTwoSteps(t *testing.T) {
	base := rand.Uint64()
	for seed := base; seed < base+uint64(*modelRuns); seed++ {
		ops, survivor := drawOps(seed), int(seed%3)
		if broken := inBubble(t, ops, survivor); len(broken) > 0 {
			ops, broken = minimise(t, ops, survivor, broken)
			t.Fatalf("seed %d, survivor %d, after %+v: %v", seed, survivor, ops, broken)
		}
	}
}

// inBubble is run where days pass in no time.
func inBubble(t *testing.T, ops []op, survivor int) (broken []string) {
	synctest.Test(t, func(*testing.T) { broken = run(ops, survivor) })
	return broken
}

// minimise leaves out what the same violation does not need.
func minimise(t *testing.T, ops []op, survivor int, broken []string) ([]op, []string) {
	class := func(b []string) string { return b[0][:min(len(b[0]), 9)] } // "promise 2"
	for size := len(ops) / 2; size > 0; size /= 2 {
		for i := 0; i+size <= len(ops); {
			less := slices.Concat(ops[:i], ops[i+size:])
			if b := inBubble(t, less, survivor); len(b) > 0 && class(b) == class(broken) {
				ops, broken = less, b
			} else {
				i++
			}
		}
	}
	return ops, broken
}

// run does ops one by one, lets one worker finish alone, and says what broke.
func run(ops []op, survivor int) []string {
	w := newWorld(3, 3)
	for _, o := range ops {
		w.do(o)
		if v := w.violations(); len(v) > 0 {
			return v
		}
	}
	w.settle(w.workers[survivor])
	return w.violations()
}
