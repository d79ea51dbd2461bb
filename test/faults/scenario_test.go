package faults

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/relay"
	"github.com/edictdev/edict/test/check"
	"github.com/edictdev/edict/test/gen"
)

// cast says who is on the stage beside the worker that announces and serves.
type cast string

const (
	alone  cast = "alone"
	rival  cast = "a rival that wants every partition, too"
	behind cast = "a second server of nodes, whose fold is held up"
)

// steps is a history of a seed in which watched nodes never leave, and which
// ends with what random histories rarely do.
func steps(seed uint64) []gen.Step {
	g := gen.New(seed)
	all := g.History(g.World(7, 5), 60)
	for i := range all {
		if all[i].Kind == gen.Remove { // it would answer 404 from now on
			all[i].Kind, all[i].Node.Labels, all[i].Node.Addresses = gen.Register, map[string]string{}, []string{}
		}
	}
	register := func(node, role string) gen.Step {
		return gen.Step{Kind: gen.Register, Node: gen.Node{ID: node, Labels: map[string]string{"role": role}, Addresses: []string{}}}
	}
	policy := func(slug, role string) gen.Step {
		p := g.Policy(slug)
		p.Selector = gen.Selector{Source: "role=" + role, Destination: "role=nobody"}
		return gen.Step{Kind: gen.Create, Slug: slug, Policy: p}
	}
	end := []gen.Step{
		register("gone", "late"), register("node-0", "late"), policy("late-1", "late"), policy("late-2", "late"), policy("late-3", "late"),
		register("node-1", "late"),
		{Kind: gen.Remove, Node: gen.Node{ID: "gone"}},
		{Kind: gen.Delete, Slug: "late-1"},
		{Kind: gen.Delete, Slug: "late-2"},
		register("node-2", "late"), register("node-3", "late"),
	}
	return append(all, end...)
}

// scenario plays a history of a seed on a real server and records it. Nodes
// follow over SSE and NATS; streams are cut and resumed. mutated: a node may
// never hear what it must, and is not waited for; stalls: nor may announcing
// come to an end.
func scenario(t *testing.T, seed uint64, with cast, mutated, stalls bool) []check.Violation {
	t.Helper()
	p := newPlane(t, seed)
	limit, hearing := patience, patience
	if mutated {
		hearing = 100 * time.Millisecond
	}
	if stalls {
		limit = 50 * time.Millisecond
	}
	r := rand.New(rand.NewPCG(seed, 1))
	history := steps(seed)
	nodes := nodesOf(history)
	watched := slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return n == "gone" })

	// Half of the history is there before anybody announces: a sync tells it.
	half := len(history) / 2
	at := p.publish(history[:half]...)
	for _, n := range watched { // whoever was not born yet is now
		if !slices.ContainsFunc(history[:half], func(s gen.Step) bool { return s.Node.ID == n }) {
			at = p.publish(gen.Step{Kind: gen.Register, Node: gen.Node{ID: n, Labels: map[string]string{}, Addresses: []string{}}})
		}
	}
	a := p.start(t.TempDir(), p.connect(""), relay.Options{Contested: 30 * time.Millisecond})
	servers := []*worker{a}
	if with != alone {
		opt := relay.Options{Announce: []int{}}
		if with == rival {
			opt = relay.Options{Contested: 30 * time.Millisecond}
		}
		p.eventually("the first owns all", func() bool { return a.told(at) })
		servers = append(servers, p.start(t.TempDir(), p.connect(""), opt))
	}
	quiet := func() { // until everything is announced and released
		last := uint64(0)
		ok := within(limit, func() bool {
			for _, w := range servers {
				if !w.told(at) {
					return false
				}
			}
			return true
		})
		require.True(t, ok || stalls, "seed %d: announcing does not end", seed)
		if !ok { // a mutant never ends: as soon as nothing moves
			within(patience, func() bool {
				before := last
				time.Sleep(30 * time.Millisecond)
				last = p.last()
				return before == last
			})
		}
		p.quiet(at)
	}
	quiet()
	var sse, native []*follower
	for i, n := range watched {
		sse = append(sse, p.follower(n))
		native = append(native, p.follower(n))
		w := servers[i%len(servers)]
		sse[i].open(t.Context(), w, w.http.URL)
	}
	heard := func() {
		for _, f := range sse {
			ok := f.cancel == nil || within(hearing, func() bool {
				at, _ := f.At()
				return at >= p.lastStored(f.Node)
			})
			require.True(t, ok || mutated, "seed %d: %s does not hear what the stream tells", seed, f.Node)
		}
	}
	for rest := history[half:]; len(rest) > 0; {
		n := min(len(rest), 3+r.IntN(9))
		cut := sse[r.IntN(len(sse))]
		if r.IntN(2) == 0 || n == len(rest) {
			cut.cut()
		}
		if with == behind && len(servers) == 2 {
			p.heldUp(servers[1], func() { at = p.publish(rest[:n]...) }, a)
		} else {
			at = p.publish(rest[:n]...)
		}
		rest = rest[n:]
		quiet()
		if cut.cancel == nil {
			w := servers[r.IntN(len(servers))]
			cut.open(t.Context(), w, w.http.URL)
		}
		for i, f := range native {
			f.ask(servers[(i+len(rest))%len(servers)])
		}
		heard()
	}
	for _, f := range sse {
		f.cut()
	}
	for i, w := range servers {
		w.finish(fmt.Sprint("worker ", i+1), watched)
	}
	for _, w := range servers {
		w.stop()
	}
	return p.verdict()
}

// heldUp publishes while the fold of w stands still: its hub meets
// announcements that its own read model does not hold yet.
func (p *plane) heldUp(w *worker, publish func(), announcer *worker) {
	before := p.met()
	w.fold.close()
	publish()
	p.mu.Lock()
	at := p.run.Log[len(p.run.Log)-1].Seq
	p.mu.Unlock()
	p.eventually("the announcer is done", func() bool { return announcer.told(at) })
	want, _ := announcer.relay.Partitions()
	p.eventually("its hub meets what is announced", func() bool { // its hub has read what it may not release
		got, err := w.relay.Partitions()
		for i := range got {
			if got[i].After != want[i].After {
				return false
			}
		}
		return err == nil
	})
	within(20*time.Millisecond, func() bool { return p.met() > before }) // what must not come
	w.fold.open()
}

// met counts the frames that nodes met so far.
func (p *plane) met() (n int) {
	for _, f := range p.followers {
		_, frames := f.At()
		n += frames
	}
	return n
}

// quiet notes that everything up to a log sequence is announced, once all of it
// was heard.
func (p *plane) quiet(at uint64) {
	q := check.Quiet{Log: at, Stream: p.last()}
	require.NoError(p.t, p.nc.Flush()) // what was republished before is here
	p.eventually("it is recorded", func() bool {
		waiting, _, err := p.sub.Pending()
		require.NoError(p.t, err)
		delivered, err := p.sub.Delivered()
		require.NoError(p.t, err)
		p.mu.Lock()
		defer p.mu.Unlock()
		return waiting == 0 && p.heard == delivered
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.run.Quiet = append(p.run.Quiet, q)
}

// verdict judges what was recorded.
func (p *plane) verdict() []check.Violation {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.followers {
		p.run.Watchers = append(p.run.Watchers, f.Watcher(true))
	}
	broken, err := check.Judge(&p.run)
	require.NoError(p.t, err)
	return broken
}

func nodesOf(history []gen.Step) []string {
	names := map[string]bool{}
	for _, s := range history {
		if s.Node.ID != "" {
			names[s.Node.ID] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}
