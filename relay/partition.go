package relay

// phase is how far a process is with one partition.
type phase uint8

const (
	idle  phase = iota // not ours; the fence is not known
	read               // not ours; the fence was read and the fold must reach it
	owned              // our fence stands, as far as we know
)

// outcome is what reading the fence again said about a batch whose fate was
// unclear.
type outcome uint8

const (
	kept      outcome = iota // ours; go on from the position the fence names
	open                     // not ours, but nobody else's since we looked: take it anew at once
	contested                // somebody else took it: take it anew after a pause
	released                 // not in our share any more: leave it to another
)

// partition is the protocol's state machine for one partition in one process.
// It decides and remembers; it never does I/O. It is used by one goroutine at
// a time (the taker until it is owned, then a lane).
type partition struct {
	id    int
	owner string // ours
	log   string // ours

	phase  phase
	fence  placed // what we believe stands in the stream
	epoch  uint64 // of our last take
	taking bool   // the batch whose fate is open is a take
	need   bool   // taken, and follow or sync is not decided yet
	sync   *syncing
	told   uint64 // in follow: nothing is left to announce up to this log sequence
	scan   bool   // in follow: told is not known yet, read the outbox once
}

// see starts a take from the fence as it was read.
func (p *partition) see(f placed) {
	p.forget()
	p.fence = f
	p.phase = read
}

// claim is the fence that takes the partition: the next epoch, the same mode
// and position. Where there is no fence nothing is known to be told, and a
// fence of another log says nothing about this one's sequences: both need a
// sync.
func (p *partition) claim() Fence {
	f := p.fence.Fence
	if p.fence.Seq == 0 || f.Log != p.log {
		f.Mode = Sync
	}
	f.Log, f.Owner = p.log, p.owner
	f.Epoch++
	p.epoch = f.Epoch
	p.taking = true
	return f
}

// stored records that the server acknowledged the batch that f opens.
func (p *partition) stored(f placed) {
	p.fence = f
	p.phase = owned
	if p.taking {
		p.taking, p.need = false, true
		return
	}
	p.endSync()
}

// settle decides, from the fence read again, what became of a batch that was
// refused or whose acknowledgement was lost (10071, 10164, 10201, silence).
// The batch may still land; its expected sequence settles that.
func (p *partition) settle(f placed) outcome {
	if f.Seq != 0 && f.Owner == p.owner && f.Epoch == p.epoch && f.Log == p.log {
		p.stored(f)
		return kept
	}
	before := p.fence
	p.forget()
	if f.Seq == 0 || f.Seq == before.Seq || f.Owner == p.owner {
		return open
	}
	return lostTo(f.Fence)
}

// endSync drops the differences once the batch that ends the sync stands.
func (p *partition) endSync() {
	if p.sync != nil && p.fence.Mode == Follow && p.fence.After == End(p.sync.seq()) {
		p.sync.of.told.Add(1)
		p.dropSync()
		p.startFollow()
	}
}

func (p *partition) startFollow() { p.told, p.scan = 0, true }

// forget gives the partition up: differences, belief, everything.
func (p *partition) forget() {
	p.dropSync()
	p.phase, p.fence = idle, placed{}
	p.taking, p.need = false, false
}

func (p *partition) dropSync() {
	if p.sync != nil {
		p.sync.release()
		p.sync = nil
	}
}

// canFollow reports whether the outbox, complete above edgesFrom, holds
// everything that is still to be told. The position must have passed the whole
// of sequence edgesFrom: within a sequence, edges that are gone may be untold.
func (p *partition) canFollow(edgesFrom uint64) bool {
	return p.fence.Seq != 0 && p.fence.Mode == Follow && p.fence.Log == p.log &&
		p.fence.After.Compare(End(edgesFrom)) >= 0
}
