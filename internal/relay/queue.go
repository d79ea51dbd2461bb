package relay

// queue is what a stream is owed and was not handed yet, ascending by id. Of two
// news about one subject it keeps the newer, at the tail, so it is bounded by
// what there is to be told of. One goroutine uses it.
type queue struct {
	waiting []*news         // nil: superseded
	holes   int             // superseded entries of waiting
	at      map[subject]int // index in waiting; made for a queue that is no longer short
}

// short is up to how many news a queue is searched through.
const short = 8

func (q *queue) len() int { return len(q.waiting) - q.holes }

// put adds n, in place of what waits about the same subject.
func (q *queue) put(n *news) {
	if i, ok := q.find(n.about); ok {
		q.waiting[i] = nil
		q.holes++
	}
	if q.holes > len(q.waiting)/2 {
		q.compact()
	}
	if q.at != nil {
		q.at[n.about] = len(q.waiting)
	}
	q.waiting = append(q.waiting, n)
}

func (q *queue) find(about subject) (int, bool) {
	if q.at == nil && len(q.waiting) > short {
		q.at = make(map[subject]int, 2*len(q.waiting))
		for i, n := range q.waiting {
			if n != nil {
				q.at[n.about] = i
			}
		}
	}
	if q.at != nil {
		i, ok := q.at[about]
		return i, ok
	}
	for i, n := range q.waiting {
		if n != nil && n.about == about {
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
				q.at[n.about] = len(kept)
			}
			kept = append(kept, n)
		}
	}
	clear(q.waiting[len(kept):])
	q.waiting, q.holes = kept, 0
}

// precede puts older news before those that wait. What waits about the same
// subject stands.
func (q *queue) precede(older []*news) {
	if len(older) == 0 {
		return
	}
	live := q.waiting
	*q = queue{waiting: make([]*news, 0, len(older)+len(live))}
	for _, list := range [][]*news{older, live} {
		for _, n := range list {
			if n != nil {
				q.put(n)
			}
		}
	}
}

// take moves up to most of what waits to the end of dst, oldest first.
func (q *queue) take(dst []*news, most int) []*news {
	if q.holes > 0 {
		q.compact()
	}
	n := min(most, len(q.waiting))
	dst = append(dst, q.waiting[:n]...)
	rest := copy(q.waiting, q.waiting[n:])
	clear(q.waiting[rest:])
	q.waiting, q.at = q.waiting[:rest], nil
	return dst
}

// drop empties the queue.
func (q *queue) drop() { *q = queue{} }
