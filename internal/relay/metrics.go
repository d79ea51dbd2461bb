package relay

import "time"

// Metrics counts what an operator wants to know. Its methods are called from many
// goroutines and must not block.
type Metrics interface {
	// Clients: an SSE stream began (+1) or ended (-1).
	Clients(delta int)
	// Resumed: a node's past was answered, over SSE or NATS, from SourceLive or
	// SourcePast.
	Resumed(source string)
	// Delivered: a live event was written to an SSE client this long after the log
	// stored its cause.
	Delivered(after time.Duration)
	// HubDropped: the hub fell behind, and this many batches of edges were dropped;
	// its streams go on from the read model.
	HubDropped(batches int)
	// Beyond: a node came back with an event id beyond the end of this log.
	Beyond()
	// Published: this many messages for nodes were published on NATS, and this many
	// were not, because nobody is subscribed.
	Published(messages, skipped int)
}

// Sources of the past of a stream.
const (
	SourceLive = "live" // nothing was missed, or nothing was asked for
	SourcePast = "past" // the read model
)

// quiet is a Metrics that counts nothing.
type quiet struct{}

func (quiet) Clients(int)             {}
func (quiet) Resumed(string)          {}
func (quiet) Delivered(time.Duration) {}
func (quiet) HubDropped(int)          {}
func (quiet) Beyond()                 {}
func (quiet) Published(int, int)      {}
