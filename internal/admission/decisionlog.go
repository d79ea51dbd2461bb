package admission

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/streams"
)

// DecisionWriter is where records go; *streams.Decisions is one.
type DecisionWriter interface {
	// Write stores all or none.
	Write(ctx context.Context, decisions []streams.Decision) error
	MaxDecision() int // bytes
}

// DecisionLogOptions have a useful zero value but for the writer.
type DecisionLogOptions struct {
	To     DecisionWriter
	Worker string
	Mask   Mask
	// Writable says why nothing may be written now; nil, or its nil: anything may.
	Writable func() error
	// Count is called with what became of decisions, one of DecisionCounts; nil: nobody
	// is.
	Count func(became string, n int)
	Log   *slog.Logger // nil: nobody
}

// What may become of a decision on its way to the log.
const (
	DecisionStored  = "stored"
	DecisionDropped = "dropped" // the queue was full, or the disk nearly
	DecisionFailed  = "failed"  // the stream did not take it, or did not say that it did
)

// DecisionCounts are all of them.
var DecisionCounts = []string{DecisionStored, DecisionDropped, DecisionFailed}

// DecisionLog writes decisions behind the back of those who wait for them: what
// the stream cannot take in time is dropped and counted, and no request waits.
type DecisionLog struct {
	opt     DecisionLogOptions
	queue   chan queued
	bytes   atomic.Int64 // of what is in queue
	dropped atomic.Int64 // and not reported in Options.Log yet
}

type queued struct {
	d     Decision
	bytes int
}

// Bounds of what waits to be written.
const (
	queueLength = 4096
	queueBytes  = 16 << 20 // of payloads and reasons, roughly as JSON
)

// NewDecisionLog makes a log; it writes nothing until it runs.
func NewDecisionLog(opt DecisionLogOptions) *DecisionLog {
	if opt.Count == nil {
		opt.Count = func(string, int) {}
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	return &DecisionLog{opt: opt, queue: make(chan queued, queueLength)}
}

// Decided takes a decision, or drops it. It never waits. A request that nobody
// waited for any more was not decided.
func (l *DecisionLog) Decided(d Decision) {
	if errors.Is(d.Err, context.Canceled) {
		return
	}
	// What a record does not tell would wait with it, and be as large as policies like.
	d.Result.Steps, d.Result.Patches, d.Result.Shadows = nil, nil, outlined(d.Result.Shadows)
	q := queued{d, d.size()}
	if l.bytes.Add(int64(q.bytes)) <= queueBytes {
		select {
		case l.queue <- q:
			return
		default:
		}
	}
	l.bytes.Add(-int64(q.bytes))
	l.drop(1)
}

func (l *DecisionLog) drop(n int) {
	l.dropped.Add(int64(n))
	l.opt.Count(DecisionDropped, n)
}

// outlined are the steps with what a record tells of them.
func outlined(steps []Step) []Step {
	out := make([]Step, len(steps))
	for i, s := range steps {
		out[i] = Step{PolicyID: s.PolicyID, PolicyName: s.PolicyName, Level: s.Level, Outcome: s.Outcome, Reason: s.Reason, version: s.version, owned: s.owned}
	}
	return out
}

// size is roughly what a decision takes while it waits.
func (d *Decision) size() int {
	n := sizeOf(d.Request.Payload)
	if d.Result.Status == Modified {
		n *= 2
	}
	for _, s := range d.Result.Shadows {
		n += len(s.Reason)
	}
	if d.Err != nil {
		n += len(d.Err.Error())
	}
	return n
}

// sizeOf is roughly what a payload takes as JSON.
func sizeOf(payload map[string]any) int {
	const most = 4 << 20
	m := meter{most, most}
	_ = m.json(payload) // beyond it is counted as that
	return most - m.bytes
}

// Run writes until ctx ends, and then what is left, for a moment.
func (l *DecisionLog) Run(ctx context.Context) error {
	// What is on its way when ctx ends is not called off at once.
	writing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(parting, cancel) })()
	for {
		select {
		case q := <-l.queue:
			l.write(writing, q)
			continue
		default:
		}
		select {
		case q := <-l.queue:
			l.write(writing, q)
		case <-ctx.Done():
			if len(l.queue) == 0 || writing.Err() != nil {
				return nil
			}
		}
	}
}

// parting bounds the writing of what is left when the plane stops.
const parting = 2 * time.Second

// Bounds of one write.
const (
	writeBytes   = 4 << 20 // of records
	writeTimeout = 10 * time.Second
)

// write stores a decision and those that wait behind it.
func (l *DecisionLog) write(ctx context.Context, q queued) {
	var batch []streams.Decision
	n := 0
	for bytes := 0; ; {
		l.bytes.Add(-int64(q.bytes))
		n++
		if x, err := l.encode(q.d); err != nil {
			l.opt.Log.Warn("a decision cannot be written", "error", err)
			l.opt.Count(DecisionFailed, 1)
		} else {
			batch = append(batch, x)
			bytes += len(x.Body)
		}
		if n == streams.MaxDecisions || bytes > writeBytes {
			break
		}
		// Requests that come meanwhile go first, where there is one core for all.
		runtime.Gosched()
		select {
		case q = <-l.queue:
			continue
		default:
		}
		break
	}
	if len(batch) > 0 {
		l.store(ctx, batch)
	}
}

func (l *DecisionLog) store(ctx context.Context, batch []streams.Decision) {
	if l.opt.Writable != nil && l.opt.Writable() != nil {
		l.drop(len(batch)) // the room tells of itself
		return
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if err := l.opt.To.Write(ctx, batch); err != nil {
		l.opt.Count(DecisionFailed, len(batch))
		l.opt.Log.Warn("decisions are lost: the decision log does not take them", "of", len(batch), "error", err)
		return
	}
	l.opt.Count(DecisionStored, len(batch))
	if n := l.dropped.Swap(0); n > 0 {
		l.opt.Log.Warn("decisions were dropped: more came than the decision log takes", "of", n)
	}
}

// encode writes a decision down. One that is larger than a message loses its
// payloads, and what else may be large, and says so.
func (l *DecisionLog) encode(d Decision) (streams.Decision, error) {
	r := NewRecord(l.opt.Worker, d)
	r.DecisionID = uuid.NewString()
	l.opt.Mask.Apply(&r)
	body, err := json.Marshal(r)
	most := l.opt.To.MaxDecision()
	for _, m := range []Mask{{{fieldRequest}, {fieldResult}, {fieldReason}}, {{fieldLabels}, {fieldShadows}}} {
		if err == nil && len(body) > most {
			m.Apply(&r)
			body, err = json.Marshal(r)
		}
	}
	if err == nil && len(body) > most {
		// Those that are written together with it would be lost, too.
		err = fmt.Errorf("it has %d bytes without its payloads, a message at most %d", len(body), most)
	}
	if err != nil {
		return streams.Decision{}, fmt.Errorf("write decision: %w", err)
	}
	return streams.Decision{Outcome: cmp.Or(r.Outcome, string(OutcomeError)), Body: body}, nil
}
