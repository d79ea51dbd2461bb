package main

// scripts are histories for rules whose counterexamples take so many things in
// a row that chance meets them once in tens of millions of steps. With every
// rule on each of them ends well.
var scripts = map[string]func() string{
	"resume-fresh":     partOfAnswer,
	"ask-fresh":        late,
	"interest-catchup": overheard,
	"mark":             marked,
	"mark-absent":      away,
	"table-between":    back,
	"restore-again":    twice,
}

// bare is a world with one client of node 0, which is registered and has a row
// and an artifact.
func bare(native bool) (w *world, c *client) {
	w = newWorld(1)
	w.h = newHistory(1, 1, nodes)
	for i := range w.workers {
		w.workers[i] = startWorker(w.h)
	}
	for p := range w.leases {
		w.leases[p] = lease{h: w.h}
	}
	c = newClient(0, native, native)
	c.goesOn = true
	w.clients, w.calm = []*client{c}, true
	w.log(
		event{kind: label, labels: 0},
		event{kind: label, node: 1, labels: 0},
		event{kind: revise, policy: 0, sel: 1, rules: 1},
		event{kind: release, set: []part{{name: 0, content: 1}}},
	)
	return w, c
}

// log appends events, and has all workers fold them.
func (w *world) log(events ...event) {
	for _, e := range events {
		w.h.add(e)
		w.note("log %d: %+v", w.h.head(), e)
	}
	for i := range w.workers {
		w.fold(i, 1<<30)
	}
}

// until does one thing after the other, until one finds a rule broken.
func until(deeds ...func() string) string {
	for _, do := range deeds {
		if bad := do(); bad != "" {
			return bad
		}
	}
	return ""
}

func quietly(do func()) func() string {
	return func() string { do(); return "" }
}

// begins has a client hear, pull and go on.
func (w *world) begins(c *client) string {
	if c.native {
		return until(
			func() string { return w.ask(c, 1) },
			quietly(func() { w.fetch(c) }),
			func() string { return w.ask(c, 1) },
		)
	}
	return until(
		func() string { return w.connect(c, 1) },
		func() string { return w.read(c, 1<<30) },
		quietly(func() { w.fetch(c) }),
	)
}

// partOfAnswer: a part of an answer of a worker ahead, then a worker behind.
func partOfAnswer() string {
	w, c := bare(false)
	return until(
		func() string { return w.begins(c) },
		quietly(func() {
			w.log(event{kind: revise, policy: 0, sel: 1, rules: 2}, event{kind: revise, policy: 1, sel: 1, rules: 1})
			w.h.add(event{kind: revise, policy: 0, sel: 3, rules: 2}) // sent to nobody who has it
			w.fold(0, 1)
		}),
		func() string { return w.connect(c, 0) },
		func() string { return w.read(c, 1) },
		func() string { return w.connect(c, 1) },
		quietly(func() { w.fold(1, 1) }),
		func() string { return w.arrive(1) },
		func() string { return w.hand(1, 1<<30) },
		func() string { return w.read(c, 1<<30) },
		func() string { return w.caughtUp(c) },
		w.settle,
	)
}

// late: a worker behind answers what the publisher said before.
func late() string {
	w, other := bare(true)
	c := newClient(0, true, true)
	w.clients = append(w.clients, c)
	return until(
		func() string { return w.take(0, 0) },
		func() string { return w.begins(other) },
		func() string { return w.begins(c) },
		quietly(func() {
			c.listening = false
			w.h.add(event{kind: revise, policy: 0, sel: 1, rules: 2})
			w.fold(0, 1)
		}),
		func() string { return w.publish(0, 0, 1) },
		func() string { return w.watch(0, 0) },
		quietly(func() { w.renew(0, 0) }),
		func() string { return w.ask(c, 1) },
		w.settle,
	)
}

// back: a table changes, is fetched, and changes back before anybody looks.
func back() string {
	w, c := bare(false)
	moves := func(to int) func() string {
		return func() string {
			w.log(event{kind: label, node: 1, labels: 0, address: to})
			return w.hand(1, 1<<30)
		}
	}
	return until(
		func() string { return w.begins(c) },
		func() string { return w.connect(c, 1) },
		quietly(func() { w.log(event{kind: revise, policy: 0, sel: 1, rules: 2}) }),
		func() string { return w.hand(1, 1<<30) },
		quietly(func() { w.lookAt(1) }),
		func() string { return w.read(c, 1<<30) },
		moves(2),
		quietly(func() { w.look(c) }),
		moves(0),
		quietly(func() { w.lookAt(1) }),
		func() string { return w.read(c, 1<<30) },
		func() string { return w.caughtUp(c) },
		w.settle,
	)
}

// twice: one backup is put back, nodes are sent messages, and it is put back again.
func twice() string {
	w, c := bare(false)
	w.backUp()
	goesOn := func(rules int) func() string {
		return quietly(func() {
			w.clock += w.h.head() + 1
			w.restore(w.backups[0], false)
			w.log(event{kind: revise, policy: 1, sel: 1, rules: rules})
		})
	}
	return until(
		goesOn(1),
		func() string { return w.begins(c) },
		goesOn(2),
		w.settle,
	)
}

// overheard: an event is left out before the question is overheard.
func overheard() string {
	w, c := bare(true)
	return until(
		func() string { return w.take(0, 0) },
		quietly(func() { w.forget(0, 0) }),
		func() string { return w.begins(c) },
		quietly(func() { w.log(event{kind: release, set: []part{{name: 0, content: 2}}}) }),
		func() string { return w.publish(0, 0, 1) },
		func() string { return w.watch(0, 0) },
		quietly(func() { w.renew(0, 0) }),
		func() string { return w.overhear(0) },
		w.settle,
	)
}

// marked: the owner publishes, writes its mark and dies before it looks.
func marked() string {
	w, c := bare(true)
	return until(
		func() string { return w.take(0, 0) },
		func() string { return w.begins(c) },
		func() string { return w.overhear(0) },
		quietly(func() { w.log(event{kind: label, node: 1, labels: 0, address: 2}) }),
		func() string { return w.publish(0, 0, 1) },
		quietly(func() { w.renew(0, 0); w.crash(0, true) }),
		func() string { return w.take(1, 0) },
		w.settle,
	)
}

// away: the owner dies before it says that the node left, and what it lost
// meanwhile is not said when it is back.
func away() string {
	w, c := bare(true)
	return until(
		func() string { return w.take(0, 0) },
		func() string { return w.begins(c) },
		func() string { return w.overhear(0) },
		quietly(func() { w.renew(0, 0); w.log(event{kind: leave}, event{kind: release}); w.crash(0, true) }),
		func() string { return w.take(1, 0) },
		quietly(func() { w.log(event{kind: label, labels: 0}) }),
		func() string { return w.publish(1, 0, 1<<30) },
		w.settle,
	)
}
