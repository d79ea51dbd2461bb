package plane

import (
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/streams"
)

// quota counts what is appended to each project's part of the log, and says whose
// day's share is used up. JetStream has no such limit: it acknowledges what a
// client may publish, and the log keeps it for good. It counts what the fold
// reads, whoever wrote it, so a worker that starts on a read model of before
// knows of nothing earlier.
type quota struct {
	most uint64 // bytes of a project in quotaHours; 0: any number
	log  *slog.Logger
	now  func() time.Time

	mu   sync.Mutex
	hour int64 // of the last event counted, since 1970
	of   map[uuid.UUID]*portion
}

const quotaHours = 24

// portion is a project's: bytes by hour, and whether it was said that they are too
// many.
type portion struct {
	hours [quotaHours]uint64
	said  bool
}

func newQuota(most uint64, log *slog.Logger) *quota {
	return &quota{most: most, log: log, now: time.Now, of: map[uuid.UUID]*portion{}}
}

// count takes note of events, by their times in the log.
func (q *quota) count(msgs []streams.Message) {
	if q.most == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now().Unix() / 3600
	q.turn(now)
	for i := range msgs {
		hour := msgs[i].Time.Unix() / 3600
		if hour <= now-quotaHours {
			continue
		}
		c, ok := streams.ParseSubject(msgs[i].Subject)
		if !ok || c.Project == uuid.Nil {
			continue
		}
		s := q.of[c.Project]
		if s == nil {
			s = &portion{}
			q.of[c.Project] = s
		}
		s.hours[min(hour, now)%quotaHours] += uint64(msgs[i].Size()) //nolint:gosec // a size
		over := s.bytes() >= q.most
		if over && !s.said {
			q.log.Warn("a project has had its share of the log for a day; an embedded server lets its producers in again when older hours are over",
				"project", c.Project, "bytes", s.bytes())
		}
		s.said = over
	}
}

// turn forgets the hours that are over.
func (q *quota) turn(now int64) {
	for hour := max(q.hour+1, now-quotaHours+1); hour <= now; hour++ {
		for id, s := range q.of {
			if s.hours[hour%quotaHours] = 0; s.bytes() == 0 {
				delete(q.of, id)
			}
		}
	}
	q.hour = max(q.hour, now)
}

func (s *portion) bytes() (sum uint64) {
	for _, n := range s.hours {
		sum += n
	}
	return sum
}

// over is how many projects have had their share.
func (q *quota) over() (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.turn(q.now().Unix() / 3600)
	for _, s := range q.of {
		if s.bytes() >= q.most {
			n++
		}
	}
	return n
}

// spent reports whether a project has had its share of the last day.
func (q *quota) spent(project uuid.UUID) bool {
	if q == nil || q.most == 0 {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.turn(q.now().Unix() / 3600)
	s := q.of[project]
	return s != nil && s.bytes() >= q.most
}
