package convergence

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/backoff"
	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// Model is what a Tracker asks of the read model; *projector.Projector is one.
type Model interface {
	Applied() uint64
	Base() uint64
	Wait(ctx context.Context, seq uint64) error
	Read(f func(v *projector.View))
}

// Log is what a Tracker asks of the log; *streams.Log is one.
type Log interface {
	State(ctx context.Context) (streams.State, error)
	Get(ctx context.Context, seq uint64) (streams.Message, error)
}

// Reports is where nodes' reports are kept; *streams.Reports is one.
type Reports interface {
	State(ctx context.Context) (streams.State, error)
	Follow(ctx context.Context, from uint64) iter.Seq2[[]streams.Message, error]
	Publish(ctx context.Context, id policy.NodeID, rep policy.Report) (seq uint64, err error)
	// Forget removes what a subject holds up to a sequence.
	Forget(ctx context.Context, subject string, upTo uint64) error
}

// What became of a report, as Metrics.Reported tells it.
const (
	Holds     = "holds"     // its node holds what it must
	Lags      = "lags"      // it holds something else, an older ruleset mostly
	Refused   = "refused"   // it says that it could not put it in force
	Stale     = "stale"     // it says that it does not know whether it is right any more
	Drift     = "drift"     // it says that something else was in force
	Malformed = "malformed" // it could not be read, or names no node
	Unknown   = "unknown"   // there is no such node
	Ahead     = "ahead"     // it names a version above the log's head
)

// Outcomes are all of them.
var Outcomes = []string{Holds, Lags, Refused, Stale, Drift, Malformed, Unknown, Ahead}

// Metrics counts the reports that this process receives.
type Metrics interface {
	// Reported notes a report and what became of it, one of Outcomes.
	Reported(outcome string)
	// Applied notes how long after its commit a change was proven applied.
	Applied(after time.Duration)
}

// Options say where a Tracker gets what it needs. All but Log and Leads are required.
type Options struct {
	Model   Model
	Events  Log
	Open    func(ctx context.Context) (Reports, error) // called again when the reports were made anew
	Metrics Metrics
	// Leads reports whether this worker is the one that removes the reports of nodes that are
	// gone; nil: it is not.
	Leads func() bool
	Log   *slog.Logger
}

// NotReadyError: the reports are not read yet.
type NotReadyError struct{}

// Error says to wait.
func (*NotReadyError) Error() string { return "the reports of nodes are not read yet; try again" }

// AheadError is a report of what the log has not reached.
type AheadError struct{ Version, Head uint64 }

// Error says what to report.
func (e *AheadError) Error() string {
	return "the report is ahead of the log's last sequence; report the event id of what was applied last"
}

// Tracker follows nodes' reports. Run runs it; the other methods may be called
// at any time.
type Tracker struct {
	opt Options
	log *slog.Logger

	mu       sync.Mutex
	table    *table
	wants    map[uint32]want // by identity, at most maxWants
	past     map[uuid.UUID]past
	rollouts map[uuid.UUID]*timing
	reports  Reports // nil until opened
	ready    bool
	seen     uint64        // sequence of the last report taken
	turns    uint64        // how often reports were put into the table
	fleet    *fleetAnswer  // the last answer of Fleet
	moved    chan struct{} // closed when seen rises

	counting chan struct{} // whoever fills it owns what follows
	census   *Census       // the last one; nil: nobody asked
	counted  *countsAt     // likewise
}

// want is what the nodes of an identity must hold.
type want struct {
	generation uint64
	print      compiler.Fingerprint
}

// past is a policy's history up to the head at seq, kept to judge reports by.
type past struct {
	head  uint64
	steps steps
}

// timing is how long nodes took to apply what happened to a policy at seq.
type timing struct {
	seq     uint64
	times   sketch
	earlier []timing // of changes before, newest first; they have none
}

// Bounds of what is kept to save work; beyond them it is done again.
const (
	maxWants    = 1 << 16
	maxPast     = 1 << 12
	maxRollouts = 1 << 16
	recentSteps = 8 // of a policy, to judge a report by
)

// New makes a tracker that has heard nothing.
func New(opt Options) *Tracker {
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	return &Tracker{
		opt: opt, log: opt.Log, table: newTable(), moved: make(chan struct{}), counting: make(chan struct{}, 1),
		wants: map[uint32]want{}, past: map[uuid.UUID]past{}, rollouts: map[uuid.UUID]*timing{},
	}
}

// Run follows the reports until ctx ends. Reports are a convenience: whatever
// goes wrong with them is tried again, and ends nothing else.
func (t *Tracker) Run(ctx context.Context) error {
	var sweeping sync.WaitGroup
	sweeping.Go(func() { sweeper{t}.daily(ctx) })
	defer sweeping.Wait()
	again := backoff.Backoff{Least: 100 * time.Millisecond, Most: 5 * time.Second}
	for ctx.Err() == nil {
		heard, err := t.follow(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if heard {
			again.Reset()
		}
		t.log.Warn("the reports of nodes cannot be followed; trying again", "error", err)
		_ = again.Pause(ctx)
	}
	return nil
}

// follow reads the reports from the first one on, until it cannot go on. heard
// tells that it came as far as the reports that were there.
func (t *Tracker) follow(ctx context.Context) (heard bool, err error) {
	reports, err := t.opt.Open(ctx)
	if err != nil {
		return false, err
	}
	// No report that is there speaks of what the fold has not seen.
	state, err := reports.State(ctx)
	if err != nil {
		return false, err
	}
	if err := t.reach(ctx, 0); err != nil {
		return false, err
	}
	t.mu.Lock()
	t.reports, t.seen = reports, 0
	t.mu.Unlock()
	if state.Messages == 0 {
		t.advance(state.Last, state.Last)
	}
	for batch, err := range reports.Follow(ctx, 1) {
		if err != nil {
			return t.heard(), err
		}
		if err := t.take(ctx, batch, state.Last); err != nil {
			return t.heard(), err
		}
		t.advance(batch[len(batch)-1].Seq, state.Last)
	}
	return t.heard(), errors.New("the reports ended")
}

func (t *Tracker) heard() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ready
}

// advance notes that the reports up to seq are in the table.
func (t *Tracker) advance(seq, old uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen = max(t.seen, seq)
	t.ready = t.ready || seq >= old
	close(t.moved)
	t.moved = make(chan struct{})
}

// reach waits until the fold has passed version; 0: the log's head. A version
// above the head is *AheadError.
func (t *Tracker) reach(ctx context.Context, version uint64) error {
	if version != 0 && t.opt.Model.Applied() >= version {
		return nil
	}
	s, err := t.opt.Events.State(ctx)
	if err != nil {
		return err
	}
	if version > s.Last {
		return &AheadError{version, s.Last}
	}
	if version == 0 {
		version = s.Last
		if s.Messages == 0 {
			return nil
		}
	}
	return t.opt.Model.Wait(ctx, version)
}

// Report takes what a node says of itself, and returns once this process has
// heard it too, or cannot wait. The node must be known here, and the version
// must not be above what this process has folded. Errors are *NotReadyError and
// those of publishing.
func (t *Tracker) Report(ctx context.Context, id policy.NodeID, rep policy.Report) error {
	t.mu.Lock()
	reports := t.reports
	t.mu.Unlock()
	if reports == nil {
		return &NotReadyError{}
	}
	seq, err := reports.Publish(ctx, id, rep)
	if err != nil {
		return err
	}
	const patience = 2 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		t.mu.Lock()
		seen, moved := t.seen, t.moved
		t.mu.Unlock()
		if seen >= seq {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return nil // it is stored
		}
	}
}
