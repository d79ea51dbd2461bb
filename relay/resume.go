package relay

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/streams"
)

// resumePatience bounds what is asked of the server before a stream opens.
const resumePatience = 5 * time.Second

// past is what a stream that goes on after n is owed before live messages: at
// most one word to pull, first, and then every message retained after n up to
// the place where the hub takes over.
type past struct {
	pull   bool
	why    string
	pullID uint64 // sequence of the word to pull; what follows is above it
	upTo   uint64 // live messages are above it
	source string
	events iter.Seq2[*news, error]
}

// resume opens a live stream that goes on after n (design sections 6 and 7).
// The subscriber must be unsubscribed.
func (h *hub) resume(ctx context.Context, node policy.NodeID, n uint64) (*subscriber, past, error) {
	s, at, err := h.subscribe(node)
	if err != nil {
		return nil, past{}, err
	}
	p, err := h.past(ctx, node, n, at)
	if err != nil {
		h.unsubscribe(s)
		return nil, past{}, err
	}
	s.skipTo(p.upTo)
	return s, p, nil
}

// past answers what came after n, up to at, where the hub is.
func (h *hub) past(ctx context.Context, node policy.NodeID, n, at uint64) (past, error) {
	p := past{upTo: at, source: SourceLive, events: none, why: whyResync}
	first := h.stream.First()
	if n > at {
		return h.beyond(ctx, n, p)
	}
	if n < first {
		n = first - 1
		p.pull = true
	} else if n < h.oldestMark(time.Now()) {
		p.pull = true
	}
	p.pullID = n
	if !p.pull && h.tableChanged(node, n, at) {
		p.pull, p.why = true, whyTable
	}
	if n == at {
		return p, nil
	}
	id := node.Partition(h.partitions)
	h.mu.Lock()
	owed, synced, covered := h.ring.since(node, id, n, at)
	h.mu.Unlock()
	if covered {
		p.source, p.events = SourceRing, each(owed)
		if synced {
			p.pull, p.why = true, whyResync
		}
		return p, nil
	}
	return h.asked(ctx, node, n, p)
}

// asked completes p with what the server retains for the node above n.
func (h *hub) asked(ctx context.Context, node policy.NodeID, n uint64, p past) (past, error) {
	quick, cancel := context.WithTimeout(ctx, resumePatience)
	defer cancel()
	at, id := p.upTo, node.Partition(h.partitions)
	own := nodePrefix + string(node) + ".>"
	msgs, err := h.last(quick, n, at, id, own)
	p.source = SourceDirect
	if errors.Is(err, streams.ErrTooMany) {
		p.source = SourceConsumer
		msgs, err = h.last(quick, n, at, id)
		p.events = h.scan(ctx, n+1, at, own)
	}
	if err != nil {
		return past{}, fmt.Errorf("resume after %d: %w", n, err)
	}
	var owed []*news
	for _, m := range msgs {
		if m.Seq <= n || m.Seq > at {
			continue
		}
		if _, _, ok := splitNodeSubject(m.Subject); ok {
			owed = append(owed, &news{Message: m})
		} else if _, ok := numbered(m.Subject, syncPrefix, h.partitions); ok {
			p.pull, p.why = true, whyResync
		}
	}
	if p.source == SourceDirect {
		p.events = each(owed)
	}
	return p, nil
}

// beyond answers n above the hub. A hub that lags is not the end of the
// stream: only the leader knows that.
func (h *hub) beyond(ctx context.Context, n uint64, p past) (past, error) {
	ctx, cancel := context.WithTimeout(ctx, resumePatience)
	defer cancel()
	state, err := h.stream.State(ctx)
	if err != nil {
		return past{}, fmt.Errorf("resume after %d: %w", n, err)
	}
	p.upTo = n
	if n > state.Last {
		// Messages that the hub still has to release up to there are covered by
		// the pull: it waits for the log's head.
		p.upTo = state.Last
		p.pull, p.pullID = true, state.Last
	} else if n < h.oldestMark(time.Now()) {
		p.pull, p.pullID = true, n
	}
	return p, nil
}

// last asks for the last messages above n of the partition's fence, its sync
// mark and more subjects. An answer with nothing in it could not say how far
// it is complete, so it is asked for from the fence on where that stands below
// n, and with the day marks where no fence was seen.
func (h *hub) last(ctx context.Context, n, at uint64, partition int, more ...string) ([]streams.Message, error) {
	filters := append([]string{streams.FenceSubject(partition), streams.SyncMarkSubject(partition)}, more...)
	from := n + 1
	if fence := h.board.fence(partition).Seq; fence > 0 {
		from = min(from, fence)
	} else {
		filters = append(filters, allDays)
	}
	msgs, err := lastUpTo(ctx, h.stream, from, at, filters...)
	if errors.Is(err, streams.ErrNotFound) {
		return nil, nil
	}
	return msgs, err
}

// scan reads the messages of one node by a temporary consumer.
func (h *hub) scan(ctx context.Context, from, to uint64, filter string) iter.Seq2[*news, error] {
	return func(yield func(*news, error) bool) {
		if err := h.scans.Acquire(ctx, 1); err != nil {
			yield(nil, err)
			return
		}
		defer h.scans.Release(1)
		for msgs, err := range h.stream.Read(ctx, from, to, filter) {
			if err != nil {
				yield(nil, err)
				return
			}
			for _, m := range msgs {
				if !yield(&news{Message: m}, nil) {
					return
				}
			}
		}
	}
}

// oldestMark is the sequence of the oldest day mark that is younger than any
// tombstone that can have expired, less a day. Who resumes from below it may
// have missed one. No such mark: everybody may.
func (h *hub) oldestMark(now time.Time) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	age := h.stream.TombstoneTTL() - day
	for _, m := range h.days {
		if now.Sub(m.at) < age {
			return m.seq
		}
	}
	return math.MaxUint64
}

func none(func(*news, error) bool) {}

func each(events []*news) iter.Seq2[*news, error] {
	return func(yield func(*news, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}
}
