package projector

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// DropEdges drops, for each partition named, the edges of whole sequences up
// to and including upTo, bounded by the cursor. Edges are complete above it
// from then on.
func (p *Projector) DropEdges(upTo map[int]uint64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed != nil {
		return p.failed
	}
	for part := range upTo {
		if part < 0 || part >= len(p.pending) {
			return fmt.Errorf("partition %d: the log has %d", part, len(p.pending))
		}
	}
	b := p.db.NewBatch()
	defer b.Close()
	f := fold{state: p.state, pending: p.pending, batch: b, store: p.db}
	it, err := p.db.NewIter(nil)
	if err != nil {
		p.failed = fmt.Errorf("read edges: %w", err)
		return p.failed
	}
	for part, seq := range upTo {
		f.dropEdges(part, min(seq, p.cursor.seq), it)
	}
	f.keep(it.Close())
	p.sweep(&f)
	if f.err == nil {
		// Not synced: edges that come back after a crash are below the fence,
		// and edges_from comes back with them.
		f.err = b.Commit(pebble.NoSync)
	}
	p.failed = f.err
	return f.err
}

// fewEdges are deleted one by one. Of the ranges in a memtable Pebble makes one
// list, anew for the first reader after each: a plane that drops a few edges
// four times a second, for hours, would do little else and keep little else.
const fewEdges = 256

// dropEdges drops a partition's edges up to and including seq. stored reads
// them; nil: the batch itself may hold some.
func (f *fold) dropEdges(part int, seq uint64, stored *pebble.Iterator) {
	ps := &f.pending[part]
	from := ps.from // none is left up to there
	if seq <= from {
		return
	}
	start, end := edgePrefix(part, from+1), edgePrefix(part, seq+1)
	switch n := ps.drop(seq); {
	case n == 0:
	case n > fewEdges || stored == nil:
		f.keep(f.batch.DeleteRange(start, end, nil))
	default:
		stored.SetBounds(start, end) // beyond are other partitions' tombstones
		for ok := stored.First(); ok; ok = stored.Next() {
			f.delete(stored.Key())
		}
	}
	f.set(edgesFromKey(part), appendU64(nil, seq))
}

// trim keeps the number of edges below the limit: the fold never waits for
// whoever should announce them.
func (p *Projector) trim(f *fold) {
	total := 0
	for i := range p.pending {
		total += p.pending[i].count
	}
	if total <= p.opt.EdgesMax {
		return
	}
	p.log.Warn("dropping the older half of the edges: nobody announces them", "edges", total, "edges_max", p.opt.EdgesMax)
	for part := range p.pending {
		if m := p.pending[part].marks; len(m) > 0 {
			f.dropEdges(part, m[len(m)/2].seq, nil)
		}
	}
}

// sweep deletes the payloads that no head has and no edge can announce.
func (p *Projector) sweep(f *fold) {
	if len(p.state.payloads.retired) == 0 {
		return
	}
	p.state.payloads.sweep(oldest(p.pending, p.cursor.seq+1), func(r retirement, gone bool) {
		f.delete(retiredKey(r))
		if gone {
			f.delete(payloadKey(r.fp))
		}
	})
}

// EdgesAbove counts, for partition after partition, the edges of sequences
// above seqs[partition], all at one moment.
func (p *Projector) EdgesAbove(seqs []uint64) []int {
	out := make([]int, len(seqs))
	p.mu.RLock()
	defer p.mu.RUnlock()
	for part, seq := range seqs {
		marks := p.pending[part].marks
		for i := len(marks) - 1; i >= 0 && marks[i].seq > seq; i-- {
			out[part] += marks[i].count
		}
	}
	return out
}
