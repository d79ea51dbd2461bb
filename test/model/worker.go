package main

import "fmt"

const (
	nodes   = 3
	workers = 3
	parts   = 2  // partitions of the nodes
	lasting = 10 // events that the transition of a key takes
)

func partition(node int) int { return node % parts }

// worker is one process: a fold, a hub that lags behind it, and a publisher for
// the partitions that it believes to own.
type worker struct {
	h      *history
	cursor int
	synced int    // what a crash leaves of cursor
	from   int    // the kept past is complete above it; 0: all of it is there
	sent   int    // the hub has handed on everything up to it
	stale  moment // the end of the log where it asks, if a leader answers there that was replaced and does not know

	owns    [parts]bool
	pub     [parts]int    // published up to here
	looked  [parts]int    // the tables of the partition were looked at here
	seen    [nodes]uint64 // and were this
	wants   [nodes]bool   // somebody listens
	floor   [nodes]int    // sent by catching up: not live
	before  [nodes]id     // the last one published
	known   [nodes]bool   // before is known
	unheard []question    // that were asked of others
}

// question is one request for what a node missed, as every worker overhears it.
type question struct {
	node  int
	after id
}

// lease is what the workers share about a partition.
type lease struct {
	owner int
	h     *history
	mark  int
}

func startWorker(h *history) *worker {
	x := &worker{h: h}
	x.begin()
	return x
}

// begin is the start of a process on what its disk holds.
func (x *worker) begin() {
	x.sent, x.unheard = x.cursor, nil
	x.owns, x.known = [parts]bool{}, [nodes]bool{}
	for n := range x.wants {
		x.wants[n] = !off("interest-start")
	}
}

func (x *worker) state() *state { return x.h.states[x.cursor] }

func (x *worker) stamped(n id) id { return id{n.place + x.h.base, n.num} }

// stamp completes the ids of frames that a worker derives, and holds them
// against everything that was ever said.
func (w *world) stamp(x *worker, node int, fs []frame) (bad string) {
	for i := range fs {
		f := &fs[i]
		f.id = x.stamped(f.id)
		if f.tells == pull || f.tells == table {
			continue
		}
		said := *f
		said.last = false
		key := place{node, f.id}
		if was, ok := w.said[key]; ok && was != said && !w.undeclared {
			return fmt.Sprintf("equal: to node %d one id says %+v and %+v", node, was, said)
		}
		w.said[key] = said
	}
	return ""
}

type place struct {
	node int
	id   id
}

// knows reports whether the worker has noticed that the log is not what it was.
func (w *world) knows(x *worker) bool { return x.h == w.h || off("own-history") }

// told is the end of the log as a worker is told it.
func (w *world) told(x *worker) int {
	if x.stale.h == w.h && off("head-followed") {
		return x.stale.seq
	}
	return w.h.head()
}

// asks reports whether the leader that a worker asks may be believed.
func (w *world) asks(x *worker) bool { return x.stale.h != w.h || off("head-followed") }

// replaced has the leader that a worker asks be replaced without its knowledge, or learn of it.
func (w *world) replaced(i int) {
	x := w.workers[i]
	if x.stale.h == w.h {
		x.stale = moment{}
		return
	}
	x.stale = moment{w.h, w.h.head()}
	w.note("the leader that worker %d asks is replaced at %d", i, w.h.head())
}

// fold has a worker take some events.
func (w *world) fold(i, most int) {
	x := w.workers[i]
	if x.h != w.h { // the chain says so, or the base: begin anew
		w.note("worker %d: another log; it folds from the beginning", i)
		*x = *startWorker(w.h)
		w.hangUp(i)
		return
	}
	for ; most > 0 && x.cursor < w.h.head(); most-- {
		x.cursor++
		if w.r.IntN(2) == 0 {
			x.synced = x.cursor
		}
		if past := x.cursor - w.window; past > x.from && w.r.IntN(2) == 0 {
			x.from = past // trimmed, at any time after its time
		}
		w.note("worker %d at %d", i, x.cursor)
	}
}

// crash is the end of a process and its next start.
func (w *world) crash(i int, disk bool) {
	w.note("worker %d starts again", i)
	w.hangUp(i)
	x := w.workers[i]
	w.unheard(x)
	if !disk {
		*x = *startWorker(w.h)
		return
	}
	x.cursor = x.synced
	x.from = min(x.from, x.synced)
	x.begin()
}

// unheard is what becomes of questions that a worker had not taken in when it ended: if the node's
// owner was that worker and its mark is above what the node lacks, only the next question helps.
func (w *world) unheard(x *worker) {
	for _, q := range x.unheard {
		for _, c := range w.clients {
			if c.native && c.listening && c.node == q.node {
				c.asking = true
			}
		}
	}
}

// hand has the hub of a worker hand on some events to the streams it serves.
func (w *world) hand(i, most int) (bad string) {
	x := w.workers[i]
	for ; most > 0 && x.sent < x.cursor; most-- {
		x.sent++
		for _, c := range w.clients {
			if c.native || c.w != i || !c.live() || x.sent <= c.joined {
				continue
			}
			fs := live(x.h.states[x.sent-1], x.h.states[x.sent], c.node)
			if bad := w.stamp(x, c.node, fs); bad != "" {
				return bad
			}
			for _, f := range fs {
				c.push(f)
			}
			c.serve(x, x.sent)
		}
	}
	return ""
}

// overflow has the hub of a worker drop what it holds.
func (w *world) overflow(i int) (bad string) {
	x := w.workers[i]
	w.note("the hub of worker %d drops what it holds", i)
	x.sent = x.cursor
	for _, c := range w.clients {
		if c.native || c.w != i || !c.checked || off("overflow") {
			continue
		}
		if bad := w.again(x, c); bad != "" {
			return bad
		}
	}
	return ""
}

// arrive settles streams whose id the worker had not reached, those that were held,
// and those whose node was gone.
func (w *world) arrive(i int) (bad string) {
	x := w.workers[i]
	for _, c := range w.clients {
		switch {
		case c.native || c.w != i || c.live():
		case c.away:
			bad = w.again(x, c)
		case c.held:
			bad = w.release(c)
		default:
			bad = w.greet(c)
		}
		if bad != "" {
			return bad
		}
	}
	return ""
}

// lookAt has a worker look at the tables of the nodes whose streams it serves.
// The message has the id of the end of the sequence at which it looked, and is said
// once all up to there was.
func (w *world) lookAt(i int) {
	x := w.workers[i]
	if x.sent < x.cursor && !off("table-look") {
		return
	}
	for _, c := range w.clients {
		if c.native || c.w != i || !c.live() {
			continue
		}
		if x.moved(c.node, c.looked, c.seen) {
			at := x.stamped(end(max(x.sent, c.joined)))
			w.note("worker %d, at %d and sent %d, has a message about the table for %s: %+v", i, x.cursor, x.sent, c.name(), at)
			c.push(frame{id: at, tells: table})
			c.seen = x.state().table(c.node)
		}
		c.looked = x.cursor
	}
}

// moved reports whether a node's table changed since it was looked at, if only
// for a while: the node may have fetched it meanwhile.
func (x *worker) moved(node, looked int, was uint64) bool {
	if x.state().table(node) != was {
		return true
	}
	for seq := looked + 1; seq <= x.cursor && !off("table-between"); seq++ {
		if x.h.states[seq].table(node) != was {
			return true
		}
	}
	return false
}

func (w *world) hangUp(i int) {
	for _, c := range w.clients {
		if c.w == i {
			c.hangUp()
		}
	}
}

// answer is the whole of a resume; ok is false while the worker cannot know.
// Places are those of ids already.
func (w *world) answer(x *worker, node int, n id) (fs []frame, ok bool) {
	if !w.knows(x) {
		return nil, false
	}
	s := x.state()
	seq := n.place - x.h.base
	if seq > x.cursor && !w.asks(x) {
		return nil, false
	}
	if seq < 0 || seq > w.told(x) {
		low := id{}
		if off("pull-low") {
			low = end(x.cursor)
		}
		return append([]frame{{id: low, tells: pull}}, s.past(node, id{}, x.cursor)...), true
	}
	if seq > x.cursor {
		return nil, false // it lags: silence until it gets there
	}
	edge := x.from
	if off("window-edge") {
		edge--
	}
	own := id{seq, n.num}
	fs = s.past(node, own, x.from)
	switch {
	case x.from > 0 && seq <= edge && !off("window"):
		if off("pull-same") {
			own = id{}
			fs = s.past(node, own, x.cursor)
		}
		return append([]frame{{id: own, tells: pull}}, fs...), true
	case off("table-resume"):
		return fs, true
	}
	if n.num >= numWithdrawn && n.num < numTable && !off("table-inside") {
		seq = -1
	}
	if s.changed > seq {
		fs = append(fs, frame{id: end(s.seq), tells: table})
	}
	return fs, true
}
