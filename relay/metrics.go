package relay

import "time"

// Metrics hears what an operator wants counted. Methods are called from many
// goroutines and must not block.
type Metrics interface {
	// Announced: a batch of messages, fences and marks included, told this
	// many announcements.
	Announced(announcements, messages int)
	// FenceConflict: a batch was refused or its acknowledgement was lost.
	FenceConflict()
	// Clients: an SSE stream began (+1) or ended (-1).
	Clients(delta int)
	// Resumed: a stream was opened, its past answered from source: SourceLive,
	// SourceRing, SourceDirect or SourceConsumer.
	Resumed(source string)
	// Delivered: a live announcement was written to a client this long after
	// the log stored its cause.
	Delivered(after time.Duration)
}

// Sources of the past of a stream.
const (
	SourceLive     = "live"     // nothing was missed, or nothing was asked for
	SourceRing     = "ring"     // the hub still had all of it in memory
	SourceDirect   = "direct"   // one direct get of last messages
	SourceConsumer = "consumer" // a temporary consumer: too many subjects for one get
)

// quiet is the Metrics of those who count nothing.
type quiet struct{}

func (quiet) Announced(int, int)      {}
func (quiet) FenceConflict()          {}
func (quiet) Clients(int)             {}
func (quiet) Resumed(string)          {}
func (quiet) Delivered(time.Duration) {}
