package api

import (
	"context"
	"errors"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// chunk is a run of lines that change something.
type chunk struct {
	writes  []*lineWrite
	events  []streams.Append
	seqs    []uint64
	last    map[policy.NodeID]*lineWrite // the last write to each node
	repeats []repeat
	bytes   int // of large events
}

// lineWrite is one event of a chunk, and what the fold made of it.
type lineWrite struct {
	line    int
	node    policy.NodeID
	facts   policy.Facts
	event   policy.Event
	asked   string // digest of the line, under a key
	refused *streams.Rejection
}

// repeat is a line that says what a write before it, still under way, says
// too: it shares that write's fate.
type repeat struct {
	line int
	of   *lineWrite
}

func newChunk() *chunk { return &chunk{last: map[policy.NodeID]*lineWrite{}} }

// pending is the last write to a node that the view may not show yet.
func (b *batch) pending(id policy.NodeID) (*lineWrite, bool) {
	if w, ok := b.now.last[id]; ok {
		return w, true
	}
	w, ok := b.before.last[id]
	return w, ok
}

// append adds the event of a line to the chunk; size counts where events are
// large.
func (b *batch) append(line []byte, w *lineWrite, e policy.Event, size int) {
	if w.event = e; b.c.key != "" {
		w.asked = askedBy(line)
	}
	b.now.writes = append(b.now.writes, w)
	b.now.last[w.node] = w
	b.now.events = append(b.now.events, streams.Append{Event: e, Bulk: true, Principal: b.c.author(), Correlation: b.c.correlation, Request: w.asked})
	b.now.bytes += size
}

// turn publishes the chunk that was read and collects the one before it.
func (b *batch) turn() error {
	if err := b.publish(b.now); err != nil {
		return err
	}
	if err := b.collect(b.before); err != nil {
		return err
	}
	b.before, b.now = b.now, newChunk()
	return nil
}

func (b *batch) publish(k *chunk) error {
	if len(k.events) == 0 {
		return nil
	}
	if b.c.dry {
		return b.judge(k)
	}
	if full, err := b.full(k, nil); full || err != nil {
		return err
	}
	seqs, err := b.writes.appendAll(b.c, b.kind, k.events)
	if err != nil {
		return err
	}
	k.seqs, k.events = seqs, nil
	return nil
}

// full reports whether the project has no room for any line of a chunk, behind those that
// r has seen; then they are refused. As long as no line was written the whole batch is: the
// error. r is nil where the read model has seen them.
func (b *batch) full(k *chunk, r *projector.Rehearsal) (bool, error) {
	refused := b.writes.quota.checkAll(b.c, r, k.events)
	if refused == nil {
		b.begun = true
		return false, nil
	}
	if !b.begun {
		return true, refused[0]
	}
	b.c.w.Header().Del("Retry-After") // the request is not refused
	for i, w := range k.writes {
		var pr *resource.Problem
		if !errors.As(refused[i], &pr) {
			return true, refused[i]
		}
		w.refused = &streams.Rejection{Code: pr.Code, Detail: pr.Detail}
		b.reject(w.line, w.node, pr.Code, pr.Detail)
	}
	k.events = nil
	return true, nil
}

// collect waits for the verdicts of a chunk and counts them.
func (b *batch) collect(k *chunk) error {
	ctx, cancel := context.WithTimeout(b.c.r.Context(), b.writes.patience)
	defer cancel()
	for i, seq := range k.seqs {
		v, err := b.writes.verdict(ctx, seq)
		switch {
		case v.Rejection != nil:
			w := k.writes[i]
			w.refused = v.Rejection
			b.reject(w.line, w.node, v.Rejection.Code, v.Rejection.Detail)
		case err != nil:
			return err
		case v.Duplicate:
			if err := b.repeated(ctx, k.writes[i], seq); err != nil {
				return err
			}
		default:
			b.result.Applied++
		}
	}
	b.collectRepeats(k)
	return nil
}

// collectRepeats counts the lines that share the fate of another.
func (b *batch) collectRepeats(k *chunk) {
	for _, r := range k.repeats {
		if x := r.of.refused; x != nil {
			b.reject(r.line, r.of.node, x.Code, x.Detail)
			continue
		}
		b.result.Unchanged++
	}
}

// repeated counts a line whose event the fold has met before, and the log has at seq.
func (b *batch) repeated(ctx context.Context, w *lineWrite, seq uint64) error {
	err := b.writes.sameBody(ctx, w.event, w.asked, seq)
	var pr *resource.Problem
	switch {
	case err == nil:
		b.result.Unchanged++
	case errors.As(err, &pr) && pr.Code == CodeKeyReused:
		b.reject(w.line, w.node, pr.Code, pr.Detail)
	default:
		return err
	}
	return nil
}
