package convergence

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// Lagging is a node that has not applied what it should.
type Lagging struct {
	Node policy.NodeID
	// Since is the log timestamp of the first change that it is not known to have, or of the
	// last change of its own labels or addresses, where that came after.
	Since time.Time
}

// late is a node that lags, and since which event.
type late struct {
	seq     uint64
	at      int64 // its log timestamp, unix ns; 0: the log has to be asked
	ordinal uint32
}

// lag is since when a node lags that has not proven c: since the first change
// above what it reported. A node that reported other rules than it was
// sent lags since that report.
func (d *due) lag(s steps, n projector.MatchedNode, r *report) late {
	l := late{d.change.seq, d.change.at(), n.Ordinal}
	if r.known() && r.version >= max(d.change.seq, n.Facts) {
		l.at, l.seq = r.at, r.version
		return l
	}
	if r.version == 0 {
		l.seq, l.at = d.begin.seq, d.begin.at()
	} else if f, ok := s.firstAbove(r.version, d.labels); ok {
		l.seq, l.at = f.seq, f.at()
	}
	if n.Facts > max(l.seq, r.version) {
		l.seq, l.at = n.Facts, 0
	}
	return l
}

// compare orders by what lags for the longest, and then by what is at hand: nodes' ids
// would have to be fetched from memory for each of a fleet that all lag since one event.
func (l late) compare(other late) int {
	return cmp.Or(cmp.Compare(l.seq, other.seq), cmp.Compare(l.ordinal, other.ordinal))
}

// list shows those behind for the longest that still exist, and asks the log for the times
// that nobody else knows.
func (t *Tracker) list(ctx context.Context, behind *first[late]) []Lagging {
	type named struct {
		late
		node policy.NodeID
	}
	var all []named
	t.opt.Model.Read(func(v *projector.View) {
		for _, l := range behind.sorted() {
			if n, ok := v.NodeAt(l.ordinal); ok {
				all = append(all, named{l, n.ID})
			}
		}
	})
	slices.SortFunc(all, func(a, b named) int { return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.node, b.node)) })
	asked := map[uint64]int64{}
	out := make([]Lagging, 0, len(all))
	for _, l := range all {
		if l.at == 0 && l.seq != math.MaxUint64 {
			at, ok := asked[l.seq]
			if !ok {
				if m, err := t.opt.Events.Get(ctx, l.seq); err == nil {
					at = nanosOf(m.Time)
				}
				asked[l.seq] = at
			}
			l.at = at
		}
		out = append(out, Lagging{l.node, timeOf(l.at)})
	}
	return out
}
