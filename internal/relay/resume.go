package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// resumeTimeout bounds the wait for the log's leader and for this worker's fold. After
// it a resume is refused.
const resumeTimeout = 5 * time.Second

// answer is what a node that comes back with an event id gets before anything live
// (docs/design.md#delivery): a resync, if it must pull; then the items; then the
// message that its table has changed.
type answer struct {
	pull   bool           // what the node lost is not known
	pullID policy.EventID // of the resync; the ids of items are above it
	items  []projector.PastItem
	table  bool           // its table may have changed, and no item shows it
	upTo   policy.EventID // the answer is complete up to here; also the id of the message about the table
	seq    uint64         // of the fold when it was read: batches above it are yet to come
	time   time.Time      // log timestamp of it
}

// answer reads what a node missed after an id. enforces: its reader enforces tables.
// join is called while it is read, under the fold's lock. The error is a
// *NotReadyError, projector.ErrUnknownNode or one of the read model; join was not
// called then.
func (r *Relay) answer(ctx context.Context, node policy.NodeID, after policy.EventID, enforces bool, join func(seq uint64, node projector.NodeRef)) (answer, error) {
	if err := r.confirmed(); err != nil {
		return answer{}, err
	}
	seq, ours := after.Seq(r.store.Base())
	if !ours {
		seq = 0
	}
	head, err := r.catchUp(ctx, seq)
	if err != nil {
		return answer{}, err
	}
	if seq > head {
		r.beyond(node, after, head)
	}
	return r.answerAt(ctx, head, node, after, enforces, join)
}

// beyondPause is the shortest time between two warnings of a node beyond the log's end.
const beyondPause = 10 * time.Minute

// beyond warns of a node whose event id is beyond the end of the log. That node is
// answered with a resync. But once the log has passed the ids of such nodes, those
// that come later are not, so an operator must know. The id of one node does not make
// other nodes pull: it may be wrong.
func (r *Relay) beyond(node policy.NodeID, after policy.EventID, head uint64) {
	r.opt.Metrics.Beyond()
	now, last := r.clock().UnixNano(), r.warned.Load()
	if last != 0 && now-last < int64(beyondPause) || !r.warned.CompareAndSwap(last, now) {
		return
	}
	r.opt.Log.Warn("a node has an event id beyond the end of the log; if the log was restored from a backup, run edict log accept --restored",
		"node", node, "event_id", after, "seq", head)
}

// answerNow is answer for a stream. If this worker's fold has reached the client's
// id, it does not wait for the fold to reach the log's head: the past is sent at
// once, and live messages are held (freshness).
func (r *Relay) answerNow(ctx context.Context, s *stream, after policy.EventID) (answer, error) {
	if err := r.confirmed(); err != nil {
		return answer{}, err
	}
	applied := r.store.Applied()
	if seq, ours := after.Seq(r.store.Base()); ours && seq <= applied {
		s.held = true
		a, err := r.answerAt(ctx, applied, s.node, after, s.tables, s.joinHeld)
		if !errors.Is(err, projector.ErrUnknownNode) {
			return a, err
		}
		s.held = false
	}
	return r.answer(ctx, s.node, after, s.tables, s.join)
}

// answerAt is answer when the fold is known to have reached head. An id above head,
// or with another base, is of another log.
func (r *Relay) answerAt(ctx context.Context, head uint64, node policy.NodeID, after policy.EventID, enforces bool, join func(seq uint64, node projector.NodeRef)) (answer, error) {
	base := r.store.Base()
	from := after
	seq, ours := after.Seq(base)
	foreign := !ours || seq > head
	if foreign {
		from = policy.NewEventID(base, 0, 0)
	}
	p, err := r.past(ctx, node, from, join)
	if errors.Is(err, projector.ErrBehind) {
		return answer{}, &NotReadyError{fmt.Sprintf("the fold has not reached event id %s", after)}
	}
	if err != nil {
		return answer{}, err
	}
	a := answer{items: p.Items, seq: p.Seq, time: p.Time, upTo: policy.EndOf(base, p.Seq)}
	a.pull, a.pullID = foreign || !p.Whole, from
	read := tableRead(from, base)
	a.table = !a.pull && p.Changed > read && (enforces || !p.Plain && r.ordered(node, read))
	return a, nil
}

// past reads the past. Only a few read it at once, so that many nodes that come back
// together do not stop the fold.
func (r *Relay) past(ctx context.Context, node policy.NodeID, from policy.EventID, join func(uint64, projector.NodeRef)) (projector.Past, error) {
	select {
	case r.turns <- struct{}{}:
	case <-ctx.Done():
		return projector.Past{}, ctx.Err()
	}
	defer func() { <-r.turns }()
	if err := ctx.Err(); err != nil {
		return projector.Past{}, err // a client that gave up while it waited takes no turn from others
	}
	return r.store.Past(node, from, join)
}

// catchUp asks the leader for the log's head, and returns once the fold has reached
// it. A client came with a sequence: a head below it is made sure of.
func (r *Relay) catchUp(ctx context.Context, came uint64) (head uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, resumeTimeout)
	defer cancel()
	if head, err = r.opt.Reached(ctx, came); err != nil {
		return 0, &NotReadyError{fmt.Sprintf("the log's end is not known: %v", err)}
	}
	if r.store.Wait(ctx, head) != nil {
		return 0, &NotReadyError{fmt.Sprintf("event %d is not folded yet", head)}
	}
	return head, nil
}

// ordered reports whether an ordered policy applies to the node, or did at a sequence
// or later. If that cannot be read, it reports true: a pull too many is allowed.
func (r *Relay) ordered(node policy.NodeID, after uint64) bool {
	if r.opt.Tables == nil {
		return false
	}
	ordered, err := r.opt.Tables.Ordered(node, after)
	return ordered || err != nil
}

// tableRead is the sequence up to which a reader with this event id knows its table.
// The message about an artifact says nothing about the table, and a message about the
// table at an earlier event may come after it.
func tableRead(at policy.EventID, base uint64) uint64 {
	if n := at.Number(); n >= policy.NumberWithdrawn && n != policy.NumberTable {
		return 0
	}
	seq, _ := at.Seq(base)
	return seq
}

// confirmed returns an error while the log is not known to be the one that was folded.
func (r *Relay) confirmed() error {
	if r.opt.Confirmed() {
		return nil
	}
	return &NotReadyError{"the log was out of reach and is not yet confirmed to be the one that was folded"}
}
