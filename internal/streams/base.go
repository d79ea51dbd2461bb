package streams

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/edictdev/edict/policy"
	"github.com/nats-io/nats.go/jetstream"
)

// Base is what the log's sequences are counted from in event ids
// (docs/design.md#delivery): that of this log's metadata as it was opened. Ids of a log that was
// there before lie below it.
func (l *Log) Base() uint64 { return l.base }

// baseEpoch is where bases are counted from, in ticks.
var baseEpoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// baseTicks are those of a second: no log takes so many events a second for
// long, so that a log made in the place of another has the higher base.
const baseTicks = 1024

// MaxBase is the last base with room for sequences above it in an event id.
const MaxBase = 1 << 41

// baseAt is the base of a log that is made then.
func baseAt(t time.Time) uint64 {
	d := t.Sub(baseEpoch)
	if d < 0 {
		return 0
	}
	const second = uint64(time.Second)
	n := uint64(d)
	return n/second*baseTicks + n%second*baseTicks/second
}

// baseAbove is the same, with every event id above one.
func baseAbove(t time.Time, id policy.EventID) uint64 {
	base := baseAt(t)
	if seq, ok := id.Seq(base); id > 0 && ok {
		return base + seq + 1
	}
	return base
}

// baseOf reads it. A log of an older edict says none: its birth does.
func baseOf(info *jetstream.StreamInfo) uint64 {
	base, err := strconv.ParseUint(info.Config.Metadata[metaBase], 10, 64)
	if err != nil {
		return baseAt(info.Created)
	}
	return base
}

// Rebase raises the base above every event id that the log has given so far, and
// above another, so that whoever comes back with one of them must pull.
// Processes that have the log open keep the base that they opened it with: stop
// them before.
func (l *Log) Rebase(ctx context.Context, above policy.EventID) error {
	info, err := l.c.streamInfo(ctx, LogStream)
	if err == nil {
		err = l.same(info)
	}
	if err != nil {
		return fmt.Errorf("rebase the log: %w", err)
	}
	last := policy.EndOf(baseOf(info), stateOf(info).Last)
	base := baseAbove(time.Now(), max(last, above))
	if base > MaxBase {
		return fmt.Errorf("rebase the log: event id %s leaves no room above it", max(last, above))
	}
	cfg := info.Config
	cfg.Metadata[metaBase] = strconv.FormatUint(base, 10)
	ctx, cancel := l.c.during(ctx, requestTimeout)
	defer cancel()
	if _, err := l.c.js.UpdateStream(ctx, cfg); err != nil {
		return fmt.Errorf("rebase the log: %w", err)
	}
	l.base = base
	return nil
}
