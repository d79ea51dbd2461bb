package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// resumePatience bounds the wait for the own fold, and for what the log's
// leader says, before a resume is refused.
const resumePatience = 5 * time.Second

// answer is what a node that comes back with an id is owed before it hears what
// is live (docs/design.md#delivery): the word to pull, if there must be one, then the
// items, then the word about its table.
type answer struct {
	pull   bool           // what it lost cannot be known
	pullID policy.EventID // of that word; items stand above it
	items  []projector.PastItem
	table  bool           // its table may have changed, and no item says so
	upTo   policy.EventID // everything up to here is told; also the id of the word about the table
	seq    uint64         // the moment: batches above it are yet to come
	time   time.Time      // log timestamp of it
}

// answer reads what a node missed after an id. enforces: its reader said that it
// enforces tables. join is called at the moment that is read, under the fold's lock.
// The error is a *NotReadyError, projector.ErrUnknownNode or what the read model
// failed with; join was not called then.
func (r *Relay) answer(ctx context.Context, node policy.NodeID, after policy.EventID, enforces bool, join func(seq uint64, node projector.NodeRef)) (answer, error) {
	if err := r.confirmed(); err != nil {
		return answer{}, err
	}
	head, err := r.catchUp(ctx)
	if err != nil {
		return answer{}, err
	}
	if seq, ours := after.Seq(r.store.Base()); ours && seq > head {
		r.beyond(node, after, head)
	}
	return r.answerAt(ctx, head, node, after, enforces, join)
}

// beyondPause is how often it is said that a node stood beyond the log's end.
const beyondPause = 10 * time.Minute

// beyond notes a node that was told what the log does not have. It is answered
// with the word to pull, like every other that stands there; those that come
// later, once the log has passed their ids, are not, so somebody must know. One
// node's word makes no other pull: it may be the one that is wrong.
func (r *Relay) beyond(node policy.NodeID, after policy.EventID, head uint64) {
	r.opt.Metrics.Beyond()
	now, last := r.clock().UnixNano(), r.warned.Load()
	if last != 0 && now-last < int64(beyondPause) || !r.warned.CompareAndSwap(last, now) {
		return
	}
	r.opt.Log.Warn("a node was told more than the log holds; if the log was put back from a backup, say so: edict log accept --restored",
		"node", node, "event_id", after, "seq", head)
}

// answerNow is answer for a stream, from the own fold as it is, where that can
// know: what is live is held until the fold has reached the log's head.
func (r *Relay) answerNow(ctx context.Context, s *stream, after policy.EventID) (answer, error) {
	if err := r.confirmed(); err != nil {
		return answer{}, err
	}
	applied := r.store.Applied()
	if seq, ours := after.Seq(r.store.Base()); ours && seq <= applied {
		s.held = true
		a, err := r.answerAt(ctx, applied, s.node, after, s.tables, s.join)
		if !errors.Is(err, projector.ErrUnknownNode) {
			return a, err
		}
		s.held = false
	}
	return r.answer(ctx, s.node, after, s.tables, s.join)
}

// answerAt is answer for an id that is known to be of this log up to head, which
// the fold has reached, or of another.
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
	a.table = !a.pull && p.Changed > read && (enforces || r.ordered(node, read))
	return a, nil
}

// past reads the past, few at a time: a crowd that comes back takes its turns,
// and the fold goes on.
func (r *Relay) past(ctx context.Context, node policy.NodeID, from policy.EventID, join func(uint64, projector.NodeRef)) (projector.Past, error) {
	select {
	case r.turns <- struct{}{}:
	case <-ctx.Done():
		return projector.Past{}, ctx.Err()
	}
	defer func() { <-r.turns }()
	if err := ctx.Err(); err != nil {
		return projector.Past{}, err // a crowd that gave up while it waited takes no turns from who is here
	}
	return r.store.Past(node, from, join)
}

// catchUp returns once the fold has seen what was in the log when it was called:
// up to its head, as the leader says.
func (r *Relay) catchUp(ctx context.Context) (head uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, resumePatience)
	defer cancel()
	if head, err = r.opt.Head(ctx); err != nil {
		return 0, &NotReadyError{fmt.Sprintf("the log's end is not known: %v", err)}
	}
	if r.store.Wait(ctx, head) != nil {
		return 0, &NotReadyError{fmt.Sprintf("event %d is not folded yet", head)}
	}
	return head, nil
}

// ordered reports whether a policy that tables alone can say is the node's, or
// was at a sequence or later. One that cannot be asked after is taken for one
// that is: a word too many is allowed.
func (r *Relay) ordered(node policy.NodeID, after uint64) bool {
	if r.opt.Tables == nil {
		return false
	}
	ordered, err := r.opt.Tables.Ordered(node, after)
	return ordered || err != nil
}

// tableRead is the sequence at which a reader that stands at an id knows its
// table. An artifact says nothing about it, and the word about an event before
// it may still have been on its way.
func tableRead(at policy.EventID, base uint64) uint64 {
	if n := at.Number(); n >= policy.NumberWithdrawn && n != policy.NumberTable {
		return 0
	}
	seq, _ := at.Seq(base)
	return seq
}

// confirmed says why the log that was folded may not be the one that is there.
func (r *Relay) confirmed() error {
	if r.opt.Confirmed() {
		return nil
	}
	return &NotReadyError{"the log was out of reach and is not yet confirmed to be the one that was folded"}
}
