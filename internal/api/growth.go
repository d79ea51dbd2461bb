package api

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/streams"
)

// growth is how the log grows, and until when it may; nil is not known.
type growth struct {
	bytes    uint64
	perEvent *float64 // bytes
	perDay   *uint64  // bytes
	room     *uint64  // bytes
	full     *float64 // seconds from now
}

// growth makes it of the log as it is.
func (d StatusDeps) growth(s streams.State) growth {
	g := growth{bytes: s.Bytes, perDay: known(d.LogPerDay), room: known(d.LogRoom)}
	if s.Messages > 0 {
		mean := float64(s.Bytes) / float64(s.Messages)
		g.perEvent = &mean
	}
	if s.MaxBytes > 0 {
		left := s.MaxBytes - min(s.MaxBytes, s.Bytes)
		if g.room == nil || left < *g.room {
			g.room = &left
		}
	}
	if g.room != nil && g.perDay != nil && *g.perDay > 0 {
		full := float64(*g.room) / float64(*g.perDay) * (24 * time.Hour).Seconds()
		g.full = &full
	}
	return g
}

// known is what f knows, if it does.
func known(f func() (uint64, bool)) *uint64 {
	if f == nil {
		return nil
	}
	if n, ok := f(); ok {
		return &n
	}
	return nil
}

func (g growth) show(to *resource.LogStatus) {
	to.BytesPerEvent, to.BytesPerDay, to.RoomBytes, to.FullInSeconds = g.perEvent, g.perDay, g.room, g.full
}

var (
	logBytesDesc    = desc("log_bytes", "Bytes of the log, which keeps everything. Each scrape asks the log's server; while that does not answer, it is absent, as what follows from it.")
	logPerEventDesc = desc("log_bytes_per_event", "Mean bytes of the log's events; absent while it has none. If it rises, somebody writes larger ones.")
	logPerDayDesc   = desc("log_growth_bytes_per_day", "Bytes that the log grows by in 24 hours: its events of the last 24, each as large as the mean of all. It is measured every minute, and absent while the log is younger than an hour.")
	logRoomDesc     = desc("log_room_bytes", "Bytes that the log may still take, until the stream's max_bytes, or until the disk of an embedded server is so full that writes are refused. It is absent where this worker knows of no limit.")
	logFullDesc     = desc("log_full_seconds", "Seconds until the log's room is used up, if it grows as in the last 24 hours; absent while its growth or its room is not known, or nothing is written. If it is below some days, make room.")
)

func growthDescs() []*prometheus.Desc {
	return []*prometheus.Desc{logBytesDesc, logPerEventDesc, logPerDayDesc, logRoomDesc, logFullDesc}
}

func (g growth) collect(tell func(*prometheus.Desc, float64)) {
	tell(logBytesDesc, float64(g.bytes))
	for d, n := range map[*prometheus.Desc]*float64{logPerEventDesc: g.perEvent, logFullDesc: g.full} {
		if n != nil {
			tell(d, *n)
		}
	}
	for d, n := range map[*prometheus.Desc]*uint64{logPerDayDesc: g.perDay, logRoomDesc: g.room} {
		if n != nil {
			tell(d, float64(*n))
		}
	}
}
