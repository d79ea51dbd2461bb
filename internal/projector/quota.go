package projector

import (
	"encoding/binary"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/policy"
)

// quota is what a project may have and add, and what it took of the rates since it has
// one. Rates are those of the log's own times, so every worker judges an event alike.
type quota struct {
	limits policy.Quota
	seq    uint64    // of the event that gave it
	event  uuid.UUID // its id
	due    int64     // unix ns at which the events so far would have come at the rate
	spent  Usage     // applied events, by hours
}

// append is what keyQuota holds.
func (q *quota) append(b []byte) []byte {
	b = append(appendU64(b, q.seq), q.event[:]...)
	for _, f := range policy.QuotaFields {
		b = binary.AppendUvarint(b, *f.Of(&q.limits))
	}
	b = appendU64(b, uint64(q.due)) //nolint:gosec // a time
	if q.spent.last > 0 {
		b = q.spent.append(b)
	}
	return b
}

func readQuota(b []byte) (q quota, err error) {
	r := reader{b: b}
	q.seq, q.event = r.u64(), r.id()
	for _, f := range policy.QuotaFields {
		*f.Of(&q.limits) = r.uvarint()
	}
	if q.due = r.time(); r.err == nil && len(r.b) > 0 {
		q.spent, r.err = readUsage(r.b)
	}
	return q, r.err
}

// quotas loads them.
func (l *loader) quotas() error {
	return l.scan(keyQuota, func(k, v []byte) error {
		q, err := readQuota(v)
		if err != nil || len(k) != len(uuid.UUID{}) {
			return errRecord
		}
		l.state.quotas[uuid.UUID(k)] = &q
		return nil
	})
}

func quotaFact(k, v []byte) (Fact, error) {
	q, err := readQuota(v)
	if err != nil || len(k) != len(uuid.UUID{}) {
		return Fact{}, errRecord
	}
	return Fact{FactQuota, uuid.UUID(k).String(), map[string]string{
		"quota": string(policy.AppendQuota(nil, q.limits)), "seq": strconv.FormatUint(q.seq, 10), "event": q.event.String(),
		"due": logTime(q.due).Format(time.RFC3339Nano), "spent": strconv.FormatUint(q.spent.Bytes(time.Time{}), 10),
	}}, nil
}

// take counts an applied event. A clock that went back by less than a day counts for the
// newest hour; else hours go on from where it stands.
func (q *quota) take(at int64) {
	hour := max(hourOf(logTime(at)), UsageHours)
	if q.spent.ahead(hour) {
		q.spent = Usage{}
	}
	q.spent.take(max(hour, q.spent.last), 1)
	if rate := q.limits.EventsPerSecond; rate > 0 {
		q.due = max(q.dueAt(at), at) + interval(rate)
	}
}

// clockSlack is by how much the clocks of servers may differ, and none is wrong.
const clockSlack = time.Minute

// dueAt is due at a time. No event leaves it more than a second after its own time, so one
// that is further ahead was left by a clock that is not asked any more: then the second is
// full but for one event, and the rate holds from there on.
func (q *quota) dueAt(at int64) int64 {
	full := at + int64(time.Second)
	if q.due-full <= int64(clockSlack) {
		return q.due
	}
	return full - interval(q.limits.EventsPerSecond)
}

// interval is the time that an event takes at a rate.
func interval(rate uint64) int64 { return int64(time.Second) / int64(min(rate, uint64(time.Second))) } //nolint:gosec // bounded

// ready is when the rates let another event pass, if nothing else comes; at, if they do
// now.
func (q *quota) ready(at int64) time.Time {
	now := logTime(at)
	if rate := q.limits.EventsPerSecond; rate > 0 {
		// As many as a second has may come at once.
		if first := q.dueAt(at) + interval(rate) - int64(time.Second); first > at {
			return logTime(first)
		}
	}
	if most := q.limits.EventsPerDay; most > 0 && q.spent.last > 0 && !q.spent.ahead(hourOf(now)) {
		return q.spent.Below(most, now)
	}
	return now
}

// readyFor is when neither the rates of a project nor its bytes of a day keep another event
// from being applied, if nothing else comes; the judge's time, if they do not now.
func (q *quota) readyFor(j *judge, project uuid.UUID) time.Time {
	at := q.ready(j.time)
	if q.limits.BytesPerDay == 0 {
		return at
	}
	if has := q.hasBytes(j, project); has.After(at) {
		return has
	}
	return at
}

// hasBytes is when a project will have taken less of the log in a day than its quota, which
// bounds that, if it takes nothing more; the judge's time, if it has now.
func (q *quota) hasBytes(j *judge, project uuid.UUID) time.Time {
	var u Usage
	if taken := j.usage.of[project]; taken != nil {
		u = *taken
	}
	if r := j.rehearsed; r != nil && r.project == project {
		u = r.after(u)
	}
	return u.Below(q.limits.BytesPerDay, logTime(j.time))
}
