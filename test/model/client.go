package main

import "fmt"

// has is what a client believes of a policy or an artifact.
type has struct {
	content int
	id      id
}

// client is one reader of one node, over SSE or on the subject (native).
type client struct {
	place int // among the clients
	node  int
	rows  map[int]has
	last  id // as it would come back with
	keys  map[int]bool
	table uint64 // as it was fetched last
	fresh moment // from what
	stale bool   // it must fetch its table
	pull  bool   // it was asked to pull, and has not yet
	// pulled is where the last pull stood: older news of that log says nothing.
	pulled  id
	pullAt  moment
	goesOn  bool // after a pull it goes on from the pull's id
	field   bool // applies what it hears, whatever the id
	missing bool // it was notified that there is no such node

	// Over SSE; what the worker holds of the stream stands here too.
	w       int    // its worker; -1: none
	arrived moment // the log's head then
	queue   []frame
	checked bool   // its last id was found to be of this history
	held    bool   // it is not sent what is live yet
	away    bool   // its node is not there: it is answered anew once it is
	joined  int    // live edges above this are its
	said    id     // the last id put into the queue
	seen    uint64 // its table, when the worker looked last
	looked  int    // at
	keySaid int    // what signed the last frame of this stream
	served  moment // the furthest worker that served it: what a queue left out for something newer, a worker behind that cannot tell

	// On the subject.
	native    bool
	lossless  bool // what is published reaches it
	listening bool
	asking    bool         // it will ask at once
	heard     id           // the highest sent
	sentAbove map[id]frame // above last, which is what answers confirmed
	born      int          // the log that it believes
}

// moment is a sequence of one history.
type moment struct {
	h   *history
	seq int
}

// by reports whether a worker has come as far as the moment, if it knows it.
func (m moment) by(x *worker) bool { return m.h == nil || m.h == x.h && m.seq <= x.cursor }

func newClient(node int, native, special bool) *client {
	return &client{
		node: node, native: native, lossless: native && special, field: !native && special,
		rows: map[int]has{}, w: -1, sentAbove: map[id]frame{}, keys: map[int]bool{0: true},
	}
}

func (c *client) kind() string {
	switch {
	case c.lossless:
		return "lossless native client"
	case c.native:
		return "native client"
	case c.field:
		return "client of the field"
	}
	return "client"
}

func (c *client) hangUp() {
	c.w, c.queue, c.checked, c.held, c.away = -1, nil, false, false, false
}

// live reports whether it is sent what is live.
func (c *client) live() bool { return c.checked && !c.held && !c.away }

// serve notes how far the worker was that served it.
func (c *client) serve(x *worker, seq int) {
	if c.served.h != x.h || c.served.seq < seq {
		c.served = moment{x.h, seq}
	}
}

// push queues a frame; what waits under the same name is superseded.
func (c *client) push(f frame) {
	c.said = highest(c.said, f.id)
	if f.tells == pull {
		c.said = f.id
	}
	for i, q := range c.queue {
		if q.tells == pull || (q.tells == table) != (f.tells == table) || f.tells == pull || q.tells != table && q.thing != f.thing {
			continue
		}
		if off("tail") {
			c.queue[i] = f
			return
		}
		c.queue = append(c.queue[:i], c.queue[i+1:]...)
		break
	}
	c.queue = append(c.queue, f)
}

// connect has a client come back to some worker with its last id.
func (w *world) connect(c *client, i int) (bad string) {
	w.resumes++
	w.note("%s comes to worker %d (at %d) after %+v", c.name(), i, w.workers[i].cursor, c.last)
	c.hangUp()
	c.w, c.keySaid, c.arrived = i, -1, moment{w.h, w.told(w.workers[i])}
	return w.greet(c)
}

// absent reports whether a worker says that there is no such node.
func (w *world) absent(x *worker, node int) (yes bool, bad string) {
	if x.state().nodes[node].labels != nobody || !w.knows(x) {
		return false, ""
	}
	if !w.asks(x) || x.cursor < w.told(x) && !off("not-found-head") {
		return false, ""
	}
	if x.h == w.h && w.h.now().nodes[node].labels != nobody {
		return true, fmt.Sprintf("found: node %d is there, and worker at %d of %d says that it is not", node, x.cursor, w.h.head())
	}
	return true, ""
}

// greet answers what came after the client's last id, from the read model, and
// joins the live edges.
func (w *world) greet(c *client) (bad string) {
	x := w.workers[c.w]
	if x.state().nodes[c.node].labels == nobody {
		yes, bad := w.absent(x, c.node)
		if yes {
			w.gone(c, x)
		}
		return bad
	}
	c.said = c.last
	bad = w.owed(x, c, c.last)
	c.held = c.checked && x.h == c.arrived.h && x.cursor < c.arrived.seq && !off("resume-fresh")
	return bad
}

// release has a stream that was held hear what it missed, and what is live from
// now on.
func (w *world) release(c *client) (bad string) {
	x := w.workers[c.w]
	if x.h == c.arrived.h && x.cursor < c.arrived.seq {
		return ""
	}
	c.held = false
	return w.again(x, c)
}

// again answers a stream anew that was not sent what was live for a while. If its
// node is gone meanwhile, what took its rows away was not sent: it must pull.
func (w *world) again(x *worker, c *client) (bad string) {
	at := highest(c.last, c.said)
	if x.state().nodes[c.node].labels != nobody {
		c.away = false
		return w.owed(x, c, at)
	}
	if !c.away && !off("gone-pull") {
		c.push(frame{id: at, tells: pull})
	}
	c.away = true
	c.serve(x, x.cursor)
	return ""
}

// gone is what a client does that hears that its node is not there. Whether it
// keeps what it has is its own affair.
func (w *world) gone(c *client, x *worker) {
	w.note("%s hears that there is no such node", c.name())
	c.hangUp()
	if w.r.IntN(2) == 0 {
		c.rows, c.stale = map[int]has{}, true
	}
	c.missing, c.served = true, moment{x.h, x.cursor}
	c.born = 0 // it believes nothing live until it was answered
}

// owed queues what a stream is owed after an id.
func (w *world) owed(x *worker, c *client, n id) (bad string) {
	fs, ok := w.answer(x, c.node, n)
	w.note("%s is owed after %+v by a worker at %d: %v %+v", c.name(), n, x.cursor, ok, fs)
	if !ok {
		return ""
	}
	c.checked, c.missing = true, false
	c.joined, c.seen, c.looked = x.cursor, x.state().table(c.node), x.cursor
	c.serve(x, x.cursor)
	if off("one-moment") && x.cursor < w.h.head() && x.h == w.h {
		x.cursor++
		c.joined = x.cursor
	}
	for i := range fs {
		fs[i].last = false
	}
	if bad := w.stamp(x, c.node, fs); bad != "" {
		return bad
	}
	for _, f := range fs {
		if r, ok := c.rows[f.thing]; ok && f.tells == row && r.content == f.content {
			w.over++
		}
		c.push(f)
	}
	return ""
}

// take has a client read some of its queue.
func (w *world) read(c *client, most int) (bad string) {
	x := w.workers[c.w]
	for ; most > 0 && len(c.queue) > 0; most-- {
		f := c.queue[0]
		c.queue = c.queue[1:]
		w.note("%s hears %+v", c.name(), f)
		if signs := x.state().key; signs != c.keySaid {
			if bad := w.meetKey(c, x); bad != "" {
				return bad
			}
			c.keySaid = signs
		}
		if f.tells == pull {
			if bad := w.mustPull(c, f.id, x); bad != "" {
				return bad
			}
			continue
		}
		if !c.last.before(f.id) {
			return fmt.Sprintf("order: %s hears %+v after %+v", c.name(), f, c.last)
		}
		c.last = f.id
		if bad := w.apply(c, f); bad != "" {
			return bad
		}
	}
	return ""
}

// meetKey is a stream's first frame under a key: the notice comes before it, as
// long as the transition lasts. Who cannot follow pulls, with the keys.
func (w *world) meetKey(c *client, x *worker) (bad string) {
	s := x.state()
	if c.keys[s.key] {
		return ""
	}
	lasts := s.cursorWithin(s.keySince)
	if lasts && c.keys[s.key-1] {
		if off("notice") {
			return fmt.Sprintf("key: %s knows key %d and meets key %d, of which no notice came", c.name(), s.key-1, s.key)
		}
		c.keys[s.key] = true
		return ""
	}
	c.pull = true
	return ""
}

func (s *state) cursorWithin(since int) bool { return since > 0 && s.seq-since < lasting }

// mustPull is the message to pull.
func (w *world) mustPull(c *client, at id, x *worker) (bad string) {
	n := c.last
	if off("heed") && !n.before(at) {
		return ""
	}
	if at.before(n) && x.h == w.h && n.place >= w.h.base && n.place-w.h.base <= w.h.head() {
		return fmt.Sprintf("order: %s is set back from %+v, which the log has, to %+v", c.name(), n, at)
	}
	c.pull, c.last = true, at
	w.pulls++
	return ""
}

func (w *world) apply(c *client, f frame) (bad string) {
	w.frames++
	if f.tells == table {
		c.stale = true
		return ""
	}
	if !c.field && !c.pulled.before(f.id) && !c.pull {
		return "" // what it pulled is newer
	}
	if r, ok := c.rows[f.thing]; ok && !c.field && f.id.before(r.id) && !c.pull {
		return fmt.Sprintf("version: %s hears %+v and has %+v", c.name(), f, r)
	}
	c.stale = c.stale || f.thing < artifact // a row; artifacts say nothing of tables
	if f.tells == gone {
		delete(c.rows, f.thing)
	} else {
		c.rows[f.thing] = has{f.content, f.id}
	}
	return ""
}

// may reports whether a worker may answer a pull now; if not, the client waits
// and asks again.
func (w *world) may(x *worker) bool {
	return w.knows(x) && (off("pull-fresh") || w.asks(x) && x.cursor >= w.told(x))
}

// fetch has a client pull its state from any worker that may answer.
func (w *world) fetch(c *client) {
	x := w.workers[w.r.IntN(workers)]
	if !w.may(x) {
		return
	}
	s := x.state()
	if s.nodes[c.node].labels == nobody {
		c.rows = map[int]has{}
	} else {
		c.rows = w.holds(x.h, s, c.node)
	}
	c.pull, c.pulled, c.pullAt = false, x.stamped(end(s.seq)), moment{x.h, s.seq}
	c.keys[s.key], c.stale, c.table, c.fresh = true, false, s.table(c.node), c.pullAt
	w.note("%s pulls the state of %d", c.name(), s.seq)
	if !c.goesOn {
		return
	}
	c.hangUp()
	c.last, c.heard, c.sentAbove, c.born = c.pulled, c.pulled, map[id]frame{}, x.h.born
}

// holds are a node's rows and artifacts, with ids.
func (w *world) holds(h *history, s *state, node int) map[int]has {
	out := map[int]has{}
	for _, f := range s.past(node, id{}, s.seq) {
		if f.tells == row {
			out[f.thing] = has{f.content, id{f.id.place + h.base, f.id.num}}
		}
	}
	return out
}

// look has a client fetch its table.
func (w *world) look(c *client) {
	x := w.workers[w.r.IntN(workers)]
	if w.may(x) {
		c.stale, c.table, c.fresh = false, x.state().table(c.node), moment{x.h, x.cursor}
	}
}

// hear is a message on the subject. What is not newer than what was sent is
// passed over: an answer will bring it, should it matter.
func (w *world) hear(c *client, f frame) (bad string) {
	if f.born != c.born {
		c.asking = true
		return ""
	}
	if !c.keys[f.key] {
		c.asking = c.asking || !off("notice-asks")
		return ""
	}
	if f.tells == pull {
		w.note("%s hears %+v", c.name(), f)
		c.pull, c.heard = true, highest(c.heard, f.id)
		w.pulls++
		return ""
	}
	if !c.heard.before(f.id) {
		return ""
	}
	w.note("%s hears %+v", c.name(), f)
	if c.heard.before(f.prev) && !off("prev") {
		c.asking = true
	}
	c.heard = f.id
	c.sentAbove[f.id] = f
	if off("confirmed") {
		c.last = f.id
	}
	if bad := w.apply(c, f); bad != "" || !f.last || c.asking || c.pull {
		return bad
	}
	return w.hole(c, f)
}

// hole looks for what a client lacks that has just heard the last message of an
// event, and does not know that it lacks something.
func (w *world) hole(c *client, f frame) (bad string) {
	seq := f.id.place - w.h.base
	if seq < 0 || seq > w.h.head() || f.born != w.h.born || c.last.place < w.h.base {
		return ""
	}
	owners := 0
	for _, x := range w.workers {
		if x.owns[partition(c.node)] {
			owners++
		}
	}
	if c.pulled.place >= f.id.place || owners > 1 {
		return "" // of two, one may have caught up and the other not: their chains differ
	}
	later := map[int]bool{} // what was said again since: a publisher that caught up says the newest alone
	for _, x := range w.h.now().past(c.node, end(seq), 0) {
		later[x.thing] = true
	}
	return w.whole(c, w.h.states[seq], "hole", later)
}

// ask has a native client ask a worker for what came after what was confirmed,
// as it begins to listen, now and then, and where it knows that it lacks
// something. All workers overhear it.
func (w *world) ask(c *client, i int) (bad string) {
	x := w.workers[i]
	w.resumes++
	c.listening, c.asking = true, true // until it was answered
	for k, other := range w.workers {
		if k != i {
			other.unheard = append(other.unheard, question{c.node, c.last})
		}
	}
	x.unheard = append(x.unheard, question{c.node, c.last})
	if !w.knows(x) || !off("ask-fresh") && (!w.asks(x) || x.cursor < w.told(x)) {
		return "" // behind: asked again
	}
	if x.state().nodes[c.node].labels == nobody {
		yes, bad := w.absent(x, c.node)
		if yes {
			w.gone(c, x)
			c.asking = false
		}
		return bad
	}
	fs, ok := w.answer(x, c.node, c.last)
	if !ok {
		return ""
	}
	for i := range fs {
		fs[i].last = false
	}
	if bad := w.stamp(x, c.node, fs); bad != "" {
		return bad
	}
	if bad := w.meetKey(c, x); bad != "" {
		return bad
	}
	w.note("%s asks worker %d after %+v, gets %+v", c.name(), i, c.last, fs)
	c.asking, c.missing = false, false
	return w.hearAnswer(c, x, fs)
}

func (w *world) hearAnswer(c *client, x *worker, fs []frame) (bad string) {
	upTo := x.stamped(end(x.cursor))
	for _, f := range fs {
		switch {
		case f.tells == pull:
			if bad := w.mustPull(c, f.id, x); bad != "" {
				return bad
			}
			if off("heed") && !c.pull {
				continue
			}
			c.heard, c.sentAbove = f.id, map[id]frame{}
		case c.heard.before(f.id):
			c.heard = f.id
			if bad := w.apply(c, f); bad != "" {
				return bad
			}
		default:
			w.late(c, f)
		}
	}
	c.born, c.last, c.sentAbove = x.h.born, upTo, map[id]frame{}
	c.heard = highest(c.heard, upTo)
	return ""
}

// late is an item of an answer below what the client has acted on: it was lost
// on its way. Told out of its order it says nothing, unless it says what the
// client has anyway.
func (w *world) late(c *client, f frame) {
	if _, met := c.sentAbove[f.id]; met || off("late") {
		return
	}
	if f.tells == table {
		c.stale = true
		return
	}
	h, ok := c.rows[f.thing]
	if f.tells == gone && !ok || f.tells == row && ok && h.content == f.content {
		return
	}
	c.pull = true
	w.pulls++
}
