package projector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// verdictsKept is how many of the latest verdicts are remembered for writers
// that still wait for theirs.
const verdictsKept = 1 << 16

// ErrForgotten means that a verdict was asked for long after the event.
var ErrForgotten = errors.New("verdict is no longer kept: read the state, or the rejected events")

// verdictChunk is how many places of the ring there are at once: a log of a few events
// takes no room for many.
const verdictChunk = 1 << 10

// verdicts is a ring of the latest ones that are no rejections, by sequence.
type verdicts struct {
	mu   sync.Mutex
	ring [verdictsKept / verdictChunk]*[verdictChunk]Verdict
}

// at is the place of a sequence; nil: nothing near it was put yet.
func (r *verdicts) at(seq uint64) *Verdict {
	at := seq % verdictsKept
	if chunk := r.ring[at/verdictChunk]; chunk != nil {
		return &chunk[at%verdictChunk]
	}
	return nil
}

func (r *verdicts) put(made []Verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range made {
		if v.Rejection != nil { // the store has it, with all that was wrong
			continue
		}
		at := r.at(v.Seq)
		if at == nil {
			r.ring[v.Seq%verdictsKept/verdictChunk] = new([verdictChunk]Verdict)
			at = r.at(v.Seq)
		}
		*at = v
	}
}

func (r *verdicts) get(seq uint64) (Verdict, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v := r.at(seq); v != nil && v.Seq == seq {
		return *v, true
	}
	return Verdict{}, false
}

// Verdict waits until the fold has passed seq and says what it made of the
// event. Of an event folded before this process started, or too many events
// ago, it knows rejections only and otherwise returns ErrForgotten.
func (p *Projector) Verdict(ctx context.Context, seq uint64) (Verdict, error) {
	if err := p.Wait(ctx, seq); err != nil {
		return Verdict{}, err
	}
	if v, ok := p.verdicts.get(seq); ok {
		return v, nil
	}
	rs, err := p.Rejections(seq-1, 1)
	if err != nil {
		return Verdict{}, err
	}
	if len(rs) == 1 && rs[0].Seq == seq {
		return Verdict{Seq: seq, Rejection: &rs[0]}, nil
	}
	return Verdict{}, ErrForgotten
}

// fillRejection completes a rejection with what the message says of itself.
func fillRejection(r *streams.Rejection, e *entry) {
	r.Seq, r.Subject, r.Time = e.msg.Seq, e.msg.Subject, e.msg.Time.UTC()
	r.EventID, r.Type = eventNames(e.event, e.fault)
}

// eventNames are the id and the type of an event, or of what was to be one: "" for
// what could not be read.
func eventNames(ev policy.Event, fault *policy.DecodeError) (id, kind string) {
	if ev != nil {
		return ev.EventID().String(), ev.EventType()
	}
	if fault == nil {
		return "", ""
	}
	if fault.EventID != uuid.Nil {
		id = fault.EventID.String()
	}
	return id, fault.EventType
}

func encodeRejection(r *streams.Rejection) []byte {
	b, err := json.Marshal(r)
	if err != nil { // plain strings and numbers: cannot fail
		panic(err)
	}
	return b
}

// Rejections lists rejected events with a sequence above after, ascending.
func (m *model) Rejections(after uint64, limit int) ([]streams.Rejection, error) {
	if after == math.MaxUint64 {
		return nil, nil // there is none above, and no next sequence
	}
	it, err := m.db.NewIter(&pebble.IterOptions{LowerBound: rejectionKey(after + 1), UpperBound: []byte{keyRejection + 1}})
	if err != nil {
		return nil, fmt.Errorf("list rejections: %w", err)
	}
	defer it.Close()
	var out []streams.Rejection
	for ok := it.First(); ok && len(out) < limit; ok = it.Next() {
		var r streams.Rejection
		if err := json.Unmarshal(it.Value(), &r); err != nil {
			return nil, errRecord
		}
		out = append(out, r)
	}
	return out, it.Error()
}

// Unreported lists rejections that may not be in their stream yet, ascending.
func (p *Projector) Unreported(limit int) ([]streams.Rejection, error) {
	p.mu.RLock()
	from, last := p.reported, p.rejected
	p.mu.RUnlock()
	if last <= from {
		return nil, nil
	}
	list, err := p.Rejections(from, limit)
	if err == nil && len(list) == 0 {
		p.mu.Lock()
		p.reported = max(p.reported, last)
		p.mu.Unlock()
	}
	return list, err
}

// Reported notes that every rejection up to seq is in its stream. It is not
// synced: after a crash some are offered again, and are there already.
func (p *Projector) Reported(seq uint64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed != nil {
		return p.failed
	}
	p.reported = max(p.reported, seq)
	return p.db.Set(reportedKey(), appendU64(nil, p.reported), pebble.NoSync)
}
