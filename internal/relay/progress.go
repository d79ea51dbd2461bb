package relay

import "sync/atomic"

// Progress is up to where a process publishes, for who needs to know it before
// there is a Relay. The zero value is that of one that publishes nothing; the
// Relay that is made with it (Options.Progress) fills it.
type Progress struct{ publisher atomic.Pointer[publisher] }

// Published is up to which event the own partitions are announced on NATS, tables
// included: what others go on from.
func (p *Progress) Published() map[int]uint64 { return p.publisher.Load().published() }
