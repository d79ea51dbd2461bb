package relay

// Owns reports whether this process announces the partition, as far as it has
// seen the fence.
func (r *Relay) Owns(partition int) bool { return r.board.fence(partition).Owner == r.owner }
