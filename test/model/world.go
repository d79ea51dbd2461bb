package main

import (
	"fmt"
	"math/rand/v2"
)

type world struct {
	r                            *rand.Rand
	h                            *history // the log
	logs                         int
	workers                      [workers]*worker
	leases                       [parts]lease
	clients                      []*client
	said                         map[place]frame
	trace                        []string
	tracing                      bool
	weights                      []int // of deeds
	sum                          int
	kinds                        uint8 // of events that happen here
	native                       bool  // all clients are
	hasty                        bool  // clients are cut often
	calm                         bool  // nobody crashes in the end
	window                       int   // events that the kept past reaches back
	clock, pace                  int   // ticks of the bases' clock, and how many an event takes
	top                          int   // no place of an id that was ever sent is above
	backups                      []*backup
	restored                     *backup // the log is this one put back
	since                        int     // at this tick
	undeclared                   bool    // it was put back, and nobody knows: nothing holds
	frames, over, pulls, resumes int
}

func (w *world) note(format string, args ...any) {
	if w.tracing {
		w.trace = append(w.trace, fmt.Sprintf(format, args...))
	}
}

func newWorld(seed uint64) *world {
	w := &world{r: rand.New(rand.NewPCG(seed, 7)), said: map[place]frame{}} //nolint:gosec // a model
	w.h = newHistory(1, 1, nodes)
	w.weights, w.sum = w.tempers()
	w.kinds = uint8(w.r.IntN(256)) //nolint:gosec // small
	w.native, w.hasty = w.r.IntN(2) == 0, w.r.IntN(4) == 0
	w.logs, w.window = 1, 10+w.r.IntN(2)*50
	w.clock, w.pace = 1, w.r.IntN(3)
	for n := range nodes { // a world that has begun
		w.h.add(event{kind: label, node: n, labels: w.r.IntN(4)})
		w.h.add(event{kind: revise, policy: n, sel: w.selector(), rules: w.r.IntN(3)})
	}
	for i := range w.workers {
		w.workers[i] = startWorker(w.h)
	}
	for p := range w.leases {
		w.leases[p] = lease{owner: p, h: w.h}
	}
	for i := range 2 + w.r.IntN(3) {
		c := newClient(w.r.IntN(nodes)*w.r.IntN(2), w.r.IntN(2) == 0 || w.native, w.r.IntN(2) == 0)
		c.goesOn, c.place = w.r.IntN(2) == 0, i
		w.clients = append(w.clients, c)
	}
	return w
}

// produce appends a random event to the log.
func (w *world) produce() {
	w.clock += w.pace
	e := w.draw(w.h.now())
	e.tick = w.clock
	w.h.add(e)
	w.note("log %d: %+v", w.h.head(), w.h.events[w.h.head()-1])
}

func (w *world) draw(s *state) event {
	var alive []int
	for i, p := range s.policies {
		if p.sel != 0 {
			alive = append(alive, i)
		}
	}
	e := event{kind: kind(w.r.IntN(int(other))), node: w.r.IntN(nodes)}
	if w.kinds>>e.kind&1 == 0 && e.kind != revise {
		e.kind = label
	}
	switch e.kind {
	case revise:
		return w.revision(s, e, alive)
	case remove:
		if len(alive) == 0 {
			return event{kind: other}
		}
		e.policy = alive[w.r.IntN(len(alive))]
	case label:
		e.labels, e.address = w.r.IntN(4), w.r.IntN(3)
		if was := s.nodes[e.node]; was.labels != nobody && w.r.IntN(3) > 0 {
			e.labels = was.labels
		}
	case leave, rotate:
		if w.r.IntN(4) > 0 {
			return event{kind: other}
		}
	case release:
		for name := range 3 {
			if w.r.IntN(2) == 0 {
				e.set = append(e.set, part{name: name, content: w.r.IntN(2)})
			}
		}
	case withdraw:
		if len(s.nodes[e.node].set) == 0 {
			return event{kind: other}
		}
		e.name = s.nodes[e.node].set[0].name
	}
	return e
}

// revision makes or revises a policy.
func (w *world) revision(s *state, e event, alive []int) event {
	if len(alive) == 0 || len(alive) < 4 && w.r.IntN(2) == 0 {
		e.policy, e.sel, e.rules = len(s.policies), w.selector(), w.r.IntN(3)
		return e
	}
	e.policy = alive[w.r.IntN(len(alive))]
	p := s.policies[e.policy]
	e.sel, e.rules = p.sel, p.rules // nothing changes but the revision
	if w.r.IntN(3) > 0 {
		e.rules = w.r.IntN(3)
	}
	if w.r.IntN(2) == 0 {
		e.sel = w.selector()
	}
	return e
}

func (w *world) selector() uint8 { return uint8(1 + w.r.IntN(15)) } //nolint:gosec // small

// whole checks what a client holds against a state, but for some things.
func (w *world) whole(c *client, s *state, rule string, but map[int]bool) (bad string) {
	if c.pull {
		return ""
	}
	want := map[int]has{} // a node that is gone applies nothing
	if s.nodes[c.node].labels != nobody {
		want = w.holds(w.h, s, c.node)
	}
	for thing, h := range c.rows {
		if but[thing] {
			delete(want, thing)
			continue
		}
		if x, ok := want[thing]; !ok || x.content != h.content {
			return fmt.Sprintf("%s: %s, after %+v, holds %d as %+v; the state of %d says %v %+v", rule, c.name(), c.last, thing, h, s.seq, ok, x)
		}
		delete(want, thing)
	}
	for thing, x := range want {
		if but[thing] {
			continue
		}
		return fmt.Sprintf("%s: %s, after %+v, lacks %d; the state of %d says %+v", rule, c.name(), c.last, thing, s.seq, x)
	}
	return ""
}

func (c *client) name() string { return fmt.Sprintf("%s %d of %d", c.kind(), c.place, c.node) }

// tabled checks the table that a client holds.
func (w *world) tabled(c *client, x *worker, rule string) (bad string) {
	if c.pull || c.stale || !c.fresh.by(x) || x.state().nodes[c.node].labels == nobody {
		return ""
	}
	if want := x.state().table(c.node); c.table != want {
		return fmt.Sprintf("%s: %s, after %+v, has the table of %d; that of %d is another", rule, c.name(), c.last, c.fresh.seq, x.cursor)
	}
	return ""
}

// caughtUp checks a client over SSE that has nothing on its way.
func (w *world) caughtUp(c *client) (bad string) {
	x := w.workers[c.w]
	if len(c.queue) > 0 || !c.checked || c.held || x.sent < x.cursor || x.h != w.h || !c.served.by(x) || !c.pullAt.by(x) {
		return ""
	}
	if bad := w.whole(c, x.state(), "complete", nil); bad != "" || c.looked < x.cursor {
		return bad
	}
	return w.tabled(c, x, "complete")
}

// deeds are the things that happen, by how often they do in an even world. A
// world leaves some out and does others more often, or what takes four rare
// things in a row would never be met.
var deeds = []struct {
	weight int
	must   bool
	do     func(w *world, c *client, i, p int) string
}{
	{20, true, func(w *world, _ *client, _, _ int) string { w.produce(); return "" }},
	{30, true, func(w *world, _ *client, i, _ int) string { w.fold(i, w.some()); return w.arrive(i) }},
	{24, true, func(w *world, _ *client, i, _ int) string { return w.hand(i, w.some()) }},
	{2, false, func(w *world, _ *client, i, _ int) string { return w.overflow(i) }},
	{8, true, func(w *world, _ *client, i, _ int) string { w.lookAt(i); return "" }},
	{2, false, func(w *world, _ *client, i, _ int) string { w.crash(i, w.r.IntN(4) > 0); return "" }},
	{50, true, func(w *world, c *client, i, _ int) string { return w.client(c, i) }},
	{24, true, func(w *world, _ *client, i, p int) string { return w.publish(i, p, w.some()) }},
	{12, true, func(w *world, _ *client, i, p int) string { return w.watch(i, p) }},
	{6, false, func(w *world, _ *client, i, p int) string { w.renew(i, p); return "" }},
	{4, false, func(w *world, _ *client, i, p int) string { return w.take(i, p) }},
	{5, true, func(w *world, _ *client, i, _ int) string { return w.overhear(i) }},
	{2, false, func(_ *world, c *client, _, _ int) string { c.listening = false; return "" }},
	{4, false, func(w *world, c *client, i, _ int) string { w.forget(i, c.node); return "" }},
	{1, false, func(w *world, _ *client, _, _ int) string {
		if w.r.IntN(4) == 0 && !w.undeclared {
			w.another(w.r.IntN(2) == 0)
		}
		return ""
	}},
	{3, false, func(w *world, _ *client, _, _ int) string { w.recovers(); return "" }},
	{3, false, func(w *world, _ *client, i, _ int) string { w.replaced(i); return "" }},
}

// tempers draws how often each deed is done in this world.
func (w *world) tempers() (weights []int, sum int) {
	for _, d := range deeds {
		n := d.weight * []int{1, 1, 3}[w.r.IntN(3)]
		if !d.must && w.r.IntN(2) == 0 {
			n = 0
		}
		weights = append(weights, n)
		sum += n
	}
	return weights, sum
}

// some is how many events are taken at once: few, or all there are.
func (w *world) some() int {
	if w.r.IntN(2) == 0 {
		return 1 << 30
	}
	return 1 + w.r.IntN(3)
}

// step is one random thing that happens.
func (w *world) step() (bad string) {
	c := w.clients[w.r.IntN(len(w.clients))]
	i, p := w.r.IntN(workers), w.r.IntN(parts)
	k := w.r.IntN(w.sum)
	for n, d := range deeds {
		if k -= w.weights[n]; k < 0 {
			bad = d.do(w, c, i, p)
			break
		}
	}
	if w.undeclared {
		return ""
	}
	return bad
}

func (w *world) client(c *client, i int) (bad string) {
	switch {
	case c.pull && w.r.IntN(2) == 0:
		w.fetch(c)
		return ""
	case c.stale && w.r.IntN(2) == 0:
		w.look(c)
		return ""
	case c.native && (c.asking || w.r.IntN(8) == 0 && (c.listening || w.r.IntN(8) == 0)):
		return w.ask(c, i)
	case c.native:
		return ""
	case c.w < 0 || w.r.IntN(8) == 0 || w.hasty && w.r.IntN(3) == 0:
		return w.connect(c, i)
	}
	most := 4
	if w.hasty {
		most = 1
	}
	if bad := w.read(c, 1+w.r.IntN(most)); bad != "" {
		return bad
	}
	return w.caughtUp(c)
}

// another is the log made anew, or without its tail and accepted.
func (w *world) another(anew bool) {
	w.reach()
	w.restored = nil
	const unknown = 2 // what was sent last, the witness may not know
	above := w.h.base + w.h.head() - unknown + w.r.IntN(unknown+1)
	if !off("base-beyond") {
		above += unknown
	}
	if !off("base-edge") {
		above++
	}
	if anew {
		w.logs++
		if off("base") {
			above = w.h.base + w.r.IntN(3)
		}
		w.h = newHistory(above, w.logs, nodes)
		w.note("the log is lost and made anew, base %d", above)
		return
	}
	if off("rebase") {
		above = w.h.base
	}
	w.h = w.h.cut(w.r.IntN(w.h.head()+1), above)
	w.note("the log loses its tail: %d, base %d", w.h.head(), above)
}

// settle ends all faults and wants every client to hold what the log says:
// those that lose nothing without a question.
func (w *world) settle() (bad string) {
	if w.undeclared {
		w.declare()
	}
	for i, x := range w.workers {
		x.stale = moment{}
		if w.r.IntN(3) == 0 && !w.calm {
			w.crash(i, true)
		}
		w.fold(i, 1)
		w.fold(i, 1<<30)
		if bad := w.arrive(i); bad != "" {
			return bad
		}
		if bad := w.overhear(i); bad != "" {
			return bad
		}
	}
	for p := range parts {
		if bad := w.take(w.r.IntN(workers), p); bad != "" {
			return bad
		}
		for i := range w.workers {
			if bad := w.publish(i, p, 1<<30); bad != "" {
				return bad
			}
			if bad := w.watch(i, p); bad != "" {
				return bad
			}
		}
	}
	for _, c := range w.clients {
		if bad := w.settled(c); bad != "" {
			return "at the end, " + bad
		}
	}
	return ""
}

func (w *world) settled(c *client) (bad string) {
	if c.lossless && c.listening && !c.asking && !c.missing && c.last != (id{}) {
		if bad := w.whole(c, w.h.now(), "quiet", nil); bad != "" {
			return bad
		}
		if bad := w.tabled(c, w.workers[0], "quiet"); bad != "" {
			return bad
		}
	}
	for range 2 {
		i := w.r.IntN(workers)
		if c.native {
			bad = w.ask(c, i)
		} else if bad = w.connect(c, i); bad == "" && c.w >= 0 {
			bad = w.read(c, 1<<30)
		}
		if bad != "" {
			return bad
		}
		if c.pull {
			w.fetch(c)
		}
	}
	if c.missing {
		return ""
	}
	if bad := w.whole(c, w.h.now(), "complete", nil); bad != "" {
		return bad
	}
	return w.tabled(c, w.workers[0], "complete")
}
