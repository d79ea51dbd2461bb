package main

// A log that was put back from a backup. Nodes were sent what it does not know,
// under ids that it would give again, and nobody is left who remembers them all:
// the base can only be moved above what can have been sent.

// beyond is how many events a log may have had beyond its backup that came
// faster than the clock of the bases ticks.
const beyond = 12

// backup is a log as it was once, with the read models folded from it.
type backup struct {
	h       *history
	at      int
	workers [workers]worker
}

// recovers makes a backup, puts one back, or has somebody say that one was.
func (w *world) recovers() {
	n := len(w.backups)
	switch k := w.r.IntN(6); {
	case k < 3 || n == 0:
		w.backUp()
	case w.undeclared && w.r.IntN(2) == 0:
		w.passes()
		w.declare()
	case k == 3:
		w.unnoticed(w.backups[w.r.IntN(n)])
	default:
		w.passes()
		w.restore(w.backups[w.r.IntN(n)], w.r.IntN(4) == 0)
	}
}

func (w *world) backUp() {
	b := &backup{h: w.h, at: w.h.head()}
	for i, x := range w.workers {
		b.workers[i] = *x
	}
	if len(w.backups) == 2 {
		w.backups = w.backups[1:]
	}
	w.backups = append(w.backups, b)
	w.note("a backup of %d of base %d, tick %d", b.at, b.h.base, w.clock)
}

// passes is time in which nothing is sent.
func (w *world) passes() {
	switch w.r.IntN(3) {
	case 0:
		w.clock += w.r.IntN(4 * beyond)
	case 1:
		w.clock = max(w.clock, w.top+1+w.r.IntN(3))
	}
}

// restore stops the plane, puts a backup back and starts the plane, which notices
// or was sent. witness: the log's witness did not go back, and knows what was
// sent last; then the log is filled up to there.
func (w *world) restore(b *backup, witness bool) {
	w.reach()
	known := 0
	if witness {
		known = w.top
	}
	h := b.h.cut(b.at, b.h.base)
	for witness && h.head() < w.h.head() {
		h.add(event{kind: other, tick: w.clock})
	}
	if !w.bounded(h, known, b) {
		return
	}
	h.base = w.above(h, known)
	w.note("the log is put back to %d of base %d (witness %v): base %d, tick %d", b.at, b.h.base, witness, h.base, w.clock)
	w.startOn(h, b)
	w.undeclared, w.restored, w.since = false, b, w.clock
	if witness {
		w.restored = nil
	}
}

// unnoticed is the same where nobody notices: the log goes on as it was on the
// day of the backup, and gives ids that it gave before, until that is declared.
func (w *world) unnoticed(b *backup) {
	w.reach()
	w.note("the log is put back to %d of base %d, and nobody says so", b.at, b.h.base)
	w.startOn(b.h.cut(b.at, b.h.base), b)
	w.undeclared, w.restored = true, nil
}

// declare is `edict log accept --restored`, later: all workers end when they
// hear of it, and start again on what they have.
func (w *world) declare() {
	w.reach()
	old := w.h
	if !w.bounded(old, 0, nil) {
		w.clock = w.top + 1
	}
	w.h = old.cut(old.head(), w.above(old, 0))
	w.note("it is declared that the log was put back: base %d, tick %d", w.h.base, w.clock)
	for i, x := range w.workers {
		w.hangUp(i)
		if x.h != old {
			*x = worker{}
		}
		x.h = w.h
		x.begin()
	}
	w.undeclared, w.restored = false, nil
}

// above is the base of a log that was put back: above the present of the clock of
// the bases, above its own end by as much as what it replaces can have had more,
// and above what anybody still knows.
func (w *world) above(h *history, known int) int {
	if off("restore") {
		return h.base
	}
	last := h.base + h.head()
	if !off("restore-beyond") {
		last += beyond
		if !off("restore-again") {
			last += w.clock - h.latest()
		}
	}
	if !off("restore-known") {
		last = max(last, known)
	}
	if !off("restore-clock") {
		last = max(last, w.clock-1)
	}
	return last + 1
}

// bounded reports whether that is above all that was ever sent, as
// docs/recovery.md says when it is: the clock has passed it; or it is within the
// margin above the log's own end; or somebody knows it; or it was sent after a
// restore of this very backup, since when the clock has passed more ticks than
// the log had events.
func (w *world) bounded(h *history, known int, b *backup) bool {
	return w.top < w.clock || w.top <= h.base+h.head()+beyond || w.top <= known ||
		b != nil && b == w.restored && w.clock-w.since > w.h.head()
}

// reach notes how far ids went.
func (w *world) reach() { w.top = max(w.top, w.h.base+w.h.head()) }

// startOn starts all workers on a log that was put back. The read model of each
// went back with it, or was left and is not ahead of it, or was moved away.
func (w *world) startOn(h *history, b *backup) {
	w.h = h
	for i, x := range w.workers {
		w.hangUp(i)
		switch was := b.workers[i]; {
		case was.h == b.h && w.r.IntN(2) == 0:
			*x = was
		case x.h != b.h || x.cursor > b.at:
			*x = worker{}
		}
		x.h, x.synced = h, x.cursor
		x.begin()
	}
}
