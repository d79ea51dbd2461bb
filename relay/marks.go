package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/edictdev/edict/streams"
)

// dayMarkTTL is how long a day mark is kept (design section 6).
const dayMarkTTL = 30 * 24 * time.Hour

// day is how old the newest day mark may be.
const day = 24 * time.Hour

// dayMarks writes edict.mark.day.<day>: whoever resumes after a mark that is
// younger than tombstones live cannot have missed one that expired.
type dayMarks struct {
	stream Stream
	log    *slog.Logger
}

// Run writes a mark whenever the newest is a day old, until ctx ends.
func (d dayMarks) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		next, err := d.keep(ctx)
		if err != nil && ctx.Err() == nil {
			d.log.Warn("the day mark could not be written; trying again", "error", err)
			next = time.Minute
		}
		sleep(ctx, next)
	}
	return nil
}

// keep writes a mark if the newest is a day old and says when to look again.
func (d dayMarks) keep(ctx context.Context) (next time.Duration, err error) {
	marks, _, err := d.stream.Last(ctx, 0, allDays)
	if err != nil && !errors.Is(err, streams.ErrNotFound) {
		return 0, fmt.Errorf("read day marks: %w", err)
	}
	now := time.Now()
	var newest time.Time
	var stands uint64 // today's mark
	today := streams.DayMarkSubject(now)
	for _, m := range marks {
		if !strings.HasPrefix(m.Subject, dayPrefix) {
			continue
		}
		if m.Time.After(newest) {
			newest = m.Time
		}
		if m.Subject == today {
			stands = m.Seq
		}
	}
	if age := now.Sub(newest); age < day {
		return day - age, nil
	}
	_, err = d.stream.PublishBatch(ctx, []streams.Outgoing{{
		Subject: today, Body: []byte("{}"), TTL: dayMarkTTL, Expect: stands, HasExpect: true,
	}})
	if errors.Is(err, streams.ErrWrongSequence) {
		err = nil // another process wrote it
	}
	return day, err
}
