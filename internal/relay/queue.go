package relay

// queue is the messages that wait for a stream, ascending by id. Of two messages
// about one subject it keeps the newer, at the tail, so its length is bounded by the
// number of subjects. One goroutine uses it.
type queue struct {
	waiting []*message      // nil: superseded
	holes   int             // superseded entries of waiting
	at      map[subject]int // index in waiting; made for a queue that is no longer short
}

// short is the longest queue that is searched without an index.
const short = 8

func (q *queue) len() int { return len(q.waiting) - q.holes }

// put adds n, and drops what waits about the same subject.
func (q *queue) put(n *message) {
	if i, ok := q.find(n.subject); ok {
		q.waiting[i] = nil
		q.holes++
	}
	if q.holes > len(q.waiting)/2 {
		q.compact()
	}
	if q.at != nil {
		q.at[n.subject] = len(q.waiting)
	}
	q.waiting = append(q.waiting, n)
}

func (q *queue) find(about subject) (int, bool) {
	if q.at == nil && len(q.waiting) > short {
		q.at = make(map[subject]int, 2*len(q.waiting))
		for i, n := range q.waiting {
			if n != nil {
				q.at[n.subject] = i
			}
		}
	}
	if q.at != nil {
		i, ok := q.at[about]
		return i, ok
	}
	for i, n := range q.waiting {
		if n != nil && n.subject == about {
			return i, true
		}
	}
	return 0, false
}

// compact closes the holes.
func (q *queue) compact() {
	kept := q.waiting[:0]
	for _, n := range q.waiting {
		if n != nil {
			if q.at != nil {
				q.at[n.subject] = len(kept)
			}
			kept = append(kept, n)
		}
	}
	clear(q.waiting[len(kept):])
	q.waiting, q.holes = kept, 0
}

// precede puts older messages before those that wait. Of a subject for which
// something waits, nothing older is added.
func (q *queue) precede(older []*message) {
	if len(older) == 0 {
		return
	}
	live := q.waiting
	*q = queue{waiting: make([]*message, 0, len(older)+len(live))}
	for _, list := range [][]*message{older, live} {
		for _, n := range list {
			if n != nil {
				q.put(n)
			}
		}
	}
}

// take moves up to limit waiting messages to the end of dst, oldest first.
func (q *queue) take(dst []*message, limit int) []*message {
	if q.holes > 0 {
		q.compact()
	}
	n := min(limit, len(q.waiting))
	dst = append(dst, q.waiting[:n]...)
	rest := copy(q.waiting, q.waiting[n:])
	clear(q.waiting[rest:])
	q.waiting, q.at = q.waiting[:rest], nil
	return dst
}

// drop empties the queue.
func (q *queue) drop() { *q = queue{} }
