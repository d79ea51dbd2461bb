package projector

import (
	"encoding/binary"
	"iter"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/wire"
)

// UsageHours is how far back it is kept how much of the log each project took.
const UsageHours = 24

// Usage is how many bytes of the log a project took, by hours. All of its events
// count, the rejected ones too: the log keeps them for good. Hours are those of the log's own
// times, so every worker at one sequence has the same.
type Usage struct {
	last  int64 // the newest hour with an event, since 1970
	hours [UsageHours]uint64
}

// hourOf is the hour of a time, since 1970.
func hourOf(t time.Time) int64 { return t.Unix() / 3600 }

// Bytes are what was taken in the hour of now and the 23 before it.
func (u Usage) Bytes(now time.Time) (sum uint64) {
	at := max(hourOf(now), u.last)
	for hour := max(at-UsageHours+1, 0); hour <= u.last; hour++ {
		sum += u.hours[hour%UsageHours]
	}
	return sum
}

// Below is when Bytes will be below most again, if nothing more is taken: now,
// where it is, else the beginning of an hour. Most must be above 0.
func (u Usage) Below(most uint64, now time.Time) time.Time {
	for at := now; ; at = time.Unix((max(hourOf(at), u.last)+1)*3600, 0).UTC() {
		if u.Bytes(at) < most {
			return at
		}
	}
}

// ahead reports whether the last hour is so far after another that a clock must have been
// wrong: a day, so that the two have no hour in common.
func (u Usage) ahead(hour int64) bool { return u.last-hour >= UsageHours }

// take counts bytes in an hour that is not before the last one.
func (u *Usage) take(hour int64, bytes uint64) {
	for h := max(u.last+1, hour-UsageHours+1); h <= hour; h++ {
		u.hours[h%UsageHours] = 0
	}
	u.last = hour
	u.hours[hour%UsageHours] += bytes
}

// append makes the record: the last hour, then what was taken, from that hour
// back to the first in which anything was.
func (u *Usage) append(b []byte) []byte {
	b = appendU64(b, uint64(u.last)) //nolint:gosec // hours since 1970
	n := UsageHours
	for n > 0 && u.hours[(u.last-int64(n)+1)%UsageHours] == 0 {
		n--
	}
	for i := range n {
		b = binary.AppendUvarint(b, u.hours[(u.last-int64(i))%UsageHours])
	}
	return b
}

func readUsage(b []byte) (u Usage, err error) {
	r := reader{b: b}
	u.last = int64(r.u64()) //nolint:gosec // hours since 1970
	if r.err != nil || u.last < UsageHours {
		return u, errRecord
	}
	b = r.b
	for i := int64(0); len(b) > 0; i++ {
		v, n := binary.Uvarint(b)
		if n <= 0 || i == UsageHours {
			return u, errRecord
		}
		u.hours[(u.last-i)%UsageHours], b = v, b[n:]
	}
	return u, nil
}

// usages are those of all projects that took anything lately.
type usages struct {
	last    int64 // the newest hour of all
	of      map[uuid.UUID]*Usage
	touched map[uuid.UUID]struct{} // in this batch
}

func newUsages() usages {
	return usages{of: map[uuid.UUID]*Usage{}, touched: map[uuid.UUID]struct{}{}}
}

// put enters what the store has.
func (s *usages) put(project uuid.UUID, u Usage) {
	s.last = max(s.last, u.last)
	s.of[project] = &u
}

// spend counts an event, whatever the fold makes of it.
func (s *usages) spend(w *writer, e *entry) {
	project := e.payer()
	if project == uuid.Nil {
		return
	}
	at := max(hourOf(e.msg.Time), UsageHours)
	if s.last-at >= UsageHours {
		s.stepBack(w, at)
	}
	// A server's clock that went back by less counts for the hour before.
	hour := max(at, s.last)
	if hour > s.last {
		s.last = hour
		s.drop(w, func(u *Usage) bool { return u.last <= hour-UsageHours }) // quiet since a day
	}
	u := s.of[project]
	if u == nil {
		u = &Usage{last: hour}
		s.of[project] = u
	}
	u.take(hour, uint64(e.size)) //nolint:gosec // a size
	s.touched[project] = struct{}{}
}

// payer is the project in whose part of the log an event stands; zero: none.
func (e *entry) payer() uuid.UUID {
	if e.claimed {
		return e.event.Scope()
	}
	c, _ := wire.ParseSubject(e.msg.Subject)
	return c.Project
}

// stepBack has hours go on from one that is a day or more before the newest. One
// event of a server whose clock was a year ahead would have all that follow count for one
// hour, for a year. What was counted in hours so far ahead is dropped.
func (s *usages) stepBack(w *writer, hour int64) {
	s.drop(w, func(u *Usage) bool { return u.ahead(hour) })
	s.last = hour
	for _, u := range s.of {
		s.last = max(s.last, u.last)
	}
}

// drop forgets the projects of which a rule says so.
func (s *usages) drop(w *writer, which func(*Usage) bool) {
	for project, u := range s.of {
		if which(u) {
			delete(s.of, project)
			delete(s.touched, project)
			w.key = appendUsageKey(w.key[:0], project)
			w.delete(w.key)
		}
	}
}

// store writes what the batch changed.
func (s *usages) store(w *writer) {
	for project := range s.touched {
		w.key = appendUsageKey(w.key[:0], project)
		w.value = s.of[project].append(w.value[:0])
		w.set(w.key, w.value)
	}
	clear(s.touched)
}

// Usage is how much of the log a project took lately.
func (v *View) Usage(project uuid.UUID) Usage {
	if u := v.m.state.usage.of[project]; u != nil {
		return *u
	}
	return Usage{}
}

// Usages are those of all projects that took anything in the last day, in no order.
func (v *View) Usages() iter.Seq2[uuid.UUID, Usage] {
	return func(yield func(uuid.UUID, Usage) bool) {
		for project, u := range v.m.state.usage.of {
			if !yield(project, *u) {
				return
			}
		}
	}
}

// OverShare are the projects that took most bytes or more in the last day, and
// how many each took.
func (v *View) OverShare(most uint64, now time.Time) map[uuid.UUID]uint64 {
	over := map[uuid.UUID]uint64{}
	for project, u := range v.Usages() {
		if bytes := u.Bytes(now); bytes >= most {
			over[project] = bytes
		}
	}
	return over
}
