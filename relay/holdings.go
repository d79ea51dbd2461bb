package relay

import (
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"
)

// gatherLosses is how long partitions that lanes give back one by one are
// gathered before an operator is told of them.
const gatherLosses = 100 * time.Millisecond

// holdings tells an operator which partitions this process announces: many in
// one line, and only what differs from what was told before.
type holdings struct {
	log   *slog.Logger
	pause time.Duration // before a contested partition is taken anew
	// shares: partitions move as workers come and go, and for a moment two want the same.
	shares bool
	now    map[int]outcome
	told   map[int]outcome
}

func newHoldings(log *slog.Logger, pause time.Duration, shares bool) *holdings {
	return &holdings{log: log, pause: pause, shares: shares, now: map[int]outcome{}, told: map[int]outcome{}}
}

// note records what became of a partition. One that is open is about to be
// taken: what comes of that is told instead.
func (h *holdings) note(partition int, as outcome) {
	if as != open {
		h.now[partition] = as
	}
}

// changed lists the partitions that came to be so since they were told of.
func (h *holdings) changed(as outcome) (ids []int) {
	for id, is := range h.now {
		was, told := h.told[id]
		if is == as && (!told || was != as) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// waits reports whether there is something to tell.
func (h *holdings) waits() bool {
	return len(h.changed(kept))+len(h.changed(contested))+len(h.changed(released)) > 0
}

// tell writes what changed, a line for those taken, one for those lost and one
// for those left to others.
func (h *holdings) tell() {
	if ids := h.changed(kept); len(ids) > 0 {
		h.log.Info("partitions taken: this process announces them", "partitions", len(ids), "ids", Ranges(ids))
	}
	if ids := h.changed(contested); len(ids) > 0 && h.shares {
		h.log.Info("partitions are announced by another worker still; they are tried again", "partitions", len(ids), "ids", Ranges(ids))
	} else if len(ids) > 0 {
		h.log.Warn("partitions contested: another process announces them; they are tried again",
			"code", "partition_contested", "partitions", len(ids), "ids", Ranges(ids), "pause_seconds", h.pause.Seconds())
	}
	if ids := h.changed(released); len(ids) > 0 {
		h.log.Info("partitions released: another worker is to announce them", "partitions", len(ids), "ids", Ranges(ids))
	}
	for id, is := range h.now {
		h.told[id] = is
	}
}

// Ranges writes ascending numbers as 0-31,40.
func Ranges(ids []int) string {
	var parts []string
	for i := 0; i < len(ids); {
		j := i
		for j+1 < len(ids) && ids[j+1] == ids[j]+1 {
			j++
		}
		text := strconv.Itoa(ids[i])
		if j > i {
			text += "-" + strconv.Itoa(ids[j])
		}
		parts = append(parts, text)
		i = j + 1
	}
	return strings.Join(parts, ",")
}
