package relay

import (
	"slices"

	"github.com/edictdev/edict/fault"
	"github.com/edictdev/edict/policy"
)

// ring holds the messages that the hub released last, so that clients that
// were away for a moment are answered without asking the server. Like the
// stream it keeps the newest of each subject. It is complete above floor, for
// every node; its bytes are bounded, and the oldest go first. The hub's lock
// guards it.
type ring struct {
	limit  int // bytes; 0 or less keeps nothing
	bytes  int
	floor  uint64
	last   map[string]*ringed // by subject
	nodes  map[policy.NodeID]*ringed
	oldest *ringed
	newest *ringed
	marks  map[int]uint64 // newest sync mark per partition above the first floor
}

// ringed is one message in the list of all and in that of its node.
type ringed struct {
	*news
	node            policy.NodeID
	before, after   *ringed // in the order of the stream
	earlier, latter *ringed // the same among those of node
}

// ringedRoom is about what a message takes in memory beside its body: subject,
// headers, and places in maps.
const ringedRoom = 1 << 10

func newRing(limit int, floor uint64) *ring {
	return &ring{
		limit: limit, floor: floor,
		last: map[string]*ringed{}, nodes: map[policy.NodeID]*ringed{}, marks: map[int]uint64{},
	}
}

func (x *ringed) size() int { return len(x.Body) + ringedRoom }

// add takes in what the hub releases for a node, in stream order.
func (r *ring) add(node policy.NodeID, e *news) {
	if old := r.last[e.Subject]; old != nil {
		r.remove(old)
	}
	if len(e.Body)+ringedRoom > r.limit {
		r.empty(e.Seq)
		return
	}
	x := &ringed{news: e, node: node, before: r.newest, earlier: r.nodes[node]}
	if x.before == nil {
		r.oldest = x
	} else {
		x.before.after = x
	}
	if x.earlier != nil {
		x.earlier.latter = x
	}
	r.newest = x
	r.nodes[node], r.last[e.Subject] = x, x
	for r.bytes += x.size(); r.bytes > r.limit; {
		r.floor = r.oldest.Seq
		r.remove(r.oldest)
	}
}

// empty forgets everything up to seq.
func (r *ring) empty(seq uint64) {
	for r.oldest != nil {
		r.remove(r.oldest)
	}
	r.floor = seq
}

func (r *ring) remove(x *ringed) {
	r.bytes -= x.size()
	delete(r.last, x.Subject)
	if x.before == nil {
		r.oldest = x.after
	} else {
		x.before.after = x.after
	}
	if x.after == nil {
		r.newest = x.before
	} else {
		x.after.before = x.before
	}
	if x.earlier != nil {
		x.earlier.latter = x.latter
	}
	switch {
	case x.latter != nil:
		x.latter.earlier = x.earlier
	case x.earlier != nil:
		r.nodes[x.node] = x.earlier
	default:
		delete(r.nodes, x.node)
	}
}

// mark notes a sync mark that the hub releases.
func (r *ring) mark(partition int, seq uint64) { r.marks[partition] = seq }

// since is what a node of a partition is owed above n and up to at, oldest
// first, and whether a sync mark is among it; not covered: the ring does not
// reach back so far.
func (r *ring) since(node policy.NodeID, partition int, n, at uint64) (owed []*news, synced, covered bool) {
	if n < r.floor {
		return nil, false, false
	}
	if fault.Sometimes(fault.StaleResume) {
		n = r.floor
	}
	for x := r.nodes[node]; x != nil && x.Seq > n; x = x.earlier {
		if x.Seq <= at {
			owed = append(owed, x.news)
		}
	}
	if !fault.Sometimes(fault.Reorder) {
		slices.Reverse(owed)
	}
	mark := r.marks[partition]
	return owed, mark > n && mark <= at, true
}
