package main

// The publisher's side: who owns a partition publishes what its nodes are sent
// on a subject, where messages may be lost, come twice, or from two owners.

// publish has a worker publish some events for a partition.
func (w *world) publish(i, p, most int) (bad string) {
	x := w.workers[i]
	if !x.owns[p] {
		return ""
	}
	for ; most > 0 && x.pub[p] < x.cursor; most-- {
		x.pub[p]++
		at := x.pub[p]
		for n := range nodes {
			if partition(n) != p || at <= x.floor[n] || !x.wants[n] {
				continue
			}
			fs := live(x.h.states[at-1], x.h.states[at], n)
			if bad := w.say(x, n, fs); bad != "" {
				return bad
			}
		}
	}
	return ""
}

// say publishes frames for a node, each naming the one before it.
func (w *world) say(x *worker, node int, fs []frame) (bad string) {
	if len(fs) == 0 {
		return ""
	}
	if !x.known[node] {
		x.before[node], x.known[node] = x.unknown(node, fs[0].id), true
	}
	if bad := w.stamp(x, node, fs); bad != "" {
		return bad
	}
	for _, f := range fs {
		w.note("published for %d: %+v", node, f)
		f.prev, f.born, f.key = x.before[node], x.h.born, x.state().key
		x.before[node] = f.id
		for _, c := range w.clients {
			if !c.native || c.node != node || !c.listening {
				continue
			}
			if !c.lossless && w.r.IntN(4) == 0 {
				w.note("lost for client of %d: %+v", c.node, f)
				continue
			}
			if bad := w.hear(c, f); bad != "" {
				return bad
			}
		}
	}
	return ""
}

// unknown is the id before the first that a publisher says to a node: the last
// below it in the past. What the window dropped may stand above that.
func (x *worker) unknown(node int, first id) id {
	at := id{}
	for _, f := range x.h.states[min(first.place, x.cursor)].past(node, id{}, x.from) {
		if f.id.before(first) {
			at = highest(at, f.id)
		}
	}
	at = highest(at, end(min(x.from, first.place-1)))
	return x.stamped(at)
}

// watch has a publisher look at the tables of a partition.
func (w *world) watch(i, p int) (bad string) {
	x := w.workers[i]
	if !x.owns[p] || x.pub[p] < x.cursor && !off("table-look") {
		return "" // what is seen at the cursor is said once all up to it was
	}
	for n := range nodes {
		if partition(n) != p {
			continue
		}
		if !x.wants[n] || !x.moved(n, x.looked[p], x.seen[n]) {
			continue
		}
		at := end(max(x.pub[p], x.floor[n]))
		if bad := w.say(x, n, []frame{{id: at, tells: table, last: true}}); bad != "" {
			return bad
		}
		x.seen[n] = x.state().table(n)
	}
	x.looked[p] = x.cursor
	return ""
}

// renew writes a worker's mark into the lease, if the lease is still its own.
// Where it is not, it stops publishing, late or soon.
func (w *world) renew(i, p int) {
	x := w.workers[i]
	l := &w.leases[p]
	if !x.owns[p] || x.h != w.h {
		return
	}
	if l.owner != i {
		x.owns[p] = false
		return
	}
	l.h, l.mark = x.h, x.pub[p]
	if !off("mark") {
		l.mark = min(l.mark, x.looked[p])
	}
}

// take has a worker become the publisher of a partition, from the mark of the
// one before, who may not know yet.
func (w *world) take(i, p int) (bad string) {
	x := w.workers[i]
	l := &w.leases[p]
	ours := l.h == x.h || off("mark-base") && l.h.born == x.h.born
	if x.h != w.h || x.owns[p] || ours && l.mark > x.cursor {
		return ""
	}
	w.note("worker %d takes partition %d at %d from %d", i, p, x.cursor, l.mark)
	from, whole := l.mark, ours && l.mark >= x.from
	if off("mark-start") {
		from, whole = x.cursor, true
	}
	l.owner, l.h, l.mark = i, x.h, min(from, x.cursor)
	x.owns[p], x.pub[p], x.looked[p] = true, x.cursor, x.cursor
	for n := range nodes {
		if partition(n) != p {
			continue
		}
		x.known[n], x.floor[n] = false, x.cursor
		if bad := w.catchUp(x, n, end(from), whole); bad != "" {
			return bad
		}
	}
	return ""
}

// catchUp publishes what followed an id, from the read model.
func (w *world) catchUp(x *worker, node int, after id, whole bool) (bad string) {
	w.note("a publisher at %d catches up for %d after %+v (%v)", x.cursor, node, after, whole)
	x.seen[node] = x.state().table(node)
	if !x.wants[node] {
		return ""
	}
	absent := x.state().nodes[node].labels == nobody && !off("mark-absent")
	if !whole && !off("mark-window") || absent {
		return w.say(x, node, []frame{{id: end(x.cursor), tells: pull, last: true}})
	}
	fs := x.state().past(node, after, x.from)
	if s := x.state(); s.changed > after.place {
		fs = append(fs, frame{id: end(x.cursor), tells: table})
	}
	if len(fs) > 0 {
		fs[len(fs)-1].last = true
	}
	return w.say(x, node, fs)
}

// overhear has a worker take in the questions that others were asked.
func (w *world) overhear(i int) (bad string) {
	x := w.workers[i]
	asked := x.unheard
	x.unheard = nil
	for _, q := range asked {
		if x.wants[q.node] {
			continue
		}
		x.wants[q.node] = true
		p := partition(q.node)
		if !x.owns[p] || off("interest-catchup") {
			continue
		}
		x.known[q.node], x.floor[q.node] = false, x.cursor
		seq := q.after.place - x.h.base
		whole := seq >= 0 && seq > x.from
		if bad := w.catchUp(x, q.node, id{seq, q.after.num}, whole); bad != "" {
			return bad
		}
	}
	return ""
}

// forget has a worker forget that somebody listens to a node, if for a while
// nobody did.
func (w *world) forget(i, node int) {
	for _, c := range w.clients {
		if c.native && c.node == node && c.listening {
			return
		}
	}
	x := w.workers[i]
	for _, q := range x.unheard {
		if q.node == node {
			return
		}
	}
	x.wants[node], x.known[node] = false, false
}
