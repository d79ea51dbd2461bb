// Package api is the plane over HTTP: authors write policies and nodes, nodes
// read their state and their events, operators read how the plane is doing.
//
// It is thin. An author's write becomes one event of the log; the fold judges
// it, and the answer is the fold's verdict. What this package adds is form:
// strict inputs, stable codes, RFC 9457 problems for every error, and answers
// that are never older than what a client was told before. Routes lists every
// route with the types it takes and gives.
package api

import (
	"context"
	"iter"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/admission"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// Log is what the API asks of the log; *streams.Log is one.
type Log interface {
	State(ctx context.Context) (streams.State, error)
	// Head is State's last sequence, for those who ask often.
	Head(ctx context.Context) (uint64, error)
	// Publish answers with the sequence of this very event, whoever used its message id before.
	Publish(ctx context.Context, a streams.Append) (seq uint64, duplicate bool, err error)
	PublishAll(ctx context.Context, as []streams.Append) (seqs []uint64, err error)
	Created() time.Time
}

// Model is what the API asks of the read model; *projector.Projector is one.
type Model interface {
	Beside(project uuid.UUID, sel policy.Selector, but uuid.UUID) ([]policy.Policy, error)
	Applied() uint64
	// Base is what sequences are counted from in event ids.
	Base() uint64
	Wait(ctx context.Context, seq uint64) error
	Verdict(ctx context.Context, seq uint64) (projector.Verdict, error)
	Read(f func(v *projector.View))
	AdmissionVersion() uint64
	Rejections(after uint64, limit int) ([]streams.Rejection, error)
	Digest(ctx context.Context) (projector.Digest, error)
	Enforcement(id policy.NodeID) (*projector.Enforcement, bool, error)
	Facts(only policy.NodeID) (seq uint64, facts iter.Seq2[projector.Fact, error])
}

// Relay is what the API asks of whoever serves nodes live.
type Relay interface {
	// Position is the event id at which everything that was folded is told. It is
	// taken before a state is read, so that a stream opened after it misses nothing.
	Position() policy.EventID
	// Ready says why nodes cannot be served now.
	Ready() error
	// ServeEvents serves a node's event stream until either side ends it. It
	// returns an error only when nothing was written: projector.ErrUnknownNode of a
	// node that the log's head does not know, a *relay.NotAcceptableError of a form
	// that there is not.
	ServeEvents(w http.ResponseWriter, r *http.Request, node policy.NodeID) error
}

// Check is one thing a worker needs in order to serve. Probe returns quickly,
// with the reason when it is not there.
type Check struct {
	Name  string
	Probe func(ctx context.Context) error
}

// Deps are the parts the API stands on. Log, Model and Relay are required.
type Deps struct {
	Log      Log
	Model    Model
	Relay    Relay
	Composer *snapshot.Composer // nil: one of its own
	Tables   *snapshot.Tables   // nil: its own, of the default capacity
	// Admission judges requests; nil: a registry over Model.
	Admission *admission.Registry

	Access  Access          // who may do what; nil: whoever reaches the API may do anything
	Limiter *access.Limiter // of each principal; nil: none
	// Failures counts credentials shown in vain; nil: nobody does.
	Failures *access.Failures
	// Signer is the plane's key as it is now, with which nodes register, and the
	// one before while nodes accept it, else nil. Without it: 503.
	Signer func() (current, previous Signer)

	Name       string        // of this worker, in /v1/status
	Durability func() string // strict, relaxed or unknown; nil: unknown
	Partitions func() ([]resource.Partition, error)
	Workers    func(head uint64) []resource.Worker // all workers alive, and how far each is behind head; nil: this one
	Keys       func() []resource.Key
	RotateKey  Rotator                     // nil: 503
	Past       func() projector.PastStatus // how far back it is known what nodes missed; nil: no longer than the fold stands
	// SaveSnapshot makes a checkpoint of this worker's read model, ListSnapshots lists those of the log, newest first;
	// nil: 503.
	SaveSnapshot  func(ctx context.Context) (snapshot.Manifest, error)
	ListSnapshots func(ctx context.Context) ([]snapshot.Manifest, error)
	// Event reads one event of the log; nil: releases of the past are not shown.
	Event func(ctx context.Context, seq uint64) (streams.Message, error)
	// NextOf is the first event from a sequence on that has the id of e, on its subject, else
	// streams.ErrNotFound. Without it and Event no key is held against its first use.
	NextOf func(ctx context.Context, e policy.Event, from uint64) (streams.Message, error)
	LogURL func() string // where NATS clients reach the log, without a password; nil or "": nowhere
	// Writable says why the plane takes no writes now (507 storage_low).
	Writable func() error
	// Trail reads events of the log above a sequence, oldest first, at most limit;
	// nil: 503.
	Trail func(ctx context.Context, after uint64, limit int) ([]Trailed, error)
	// Convergence follows nodes' reports; nil: nobody does.
	Convergence Convergence
	// ProjectBytes is how much of the log a project takes in 24 hours before its
	// writes are refused (429 project_over_share); 0: any number.
	ProjectBytes uint64
	// Damaged says what the log has lost or changed: the fold stands, and the
	// plane takes no writes (503 log_unavailable). nil: nobody watches over it.
	Damaged func() error
	// Held is the last sequence of the log as this worker found it at its start:
	// until the fold has passed it nothing is answered from the read model (503).
	Held uint64
	// Witnessed is the last log sequence that the log's witness vouches for;
	// nil: there is none.
	Witnessed func() uint64
	Checks    []Check // further ones for /readyz
	// MaxMessage is the most bytes of one message of the log; 0: 1 MiB.
	MaxMessage int

	MetricsPage http.Handler // /metrics; nil: 404
	Metrics     *Metrics     // nil: quiet
	Trace       *slog.Logger // nil: silent
	Tracer      Tracer       // nil: nothing is recorded

	// Clock and NewID are the wall clock and UUIDv7, unless a test says
	// otherwise.
	Clock func() time.Time
	NewID func() (uuid.UUID, error)

	// Patience of a write for its verdict (0: 10 s), of a node's read for the log's
	// head (0: 2 s), and of a rollout for tables that nobody has asked for yet (0: 2 s).
	WritePatience, ReadPatience, TablePatience time.Duration
}

func (d Deps) withDefaults() Deps {
	if d.Composer == nil {
		d.Composer = snapshot.NewComposer(snapshot.Options{})
	}
	if d.Tables == nil {
		d.Tables = snapshot.NewTables(d.Model, snapshot.TableOptions{})
	}
	if d.Admission == nil {
		d.Admission = admission.NewRegistry(d.Model, admission.RegistryOptions{})
	}
	if d.Durability == nil {
		d.Durability = func() string { return "unknown" }
	}
	if d.Metrics == nil {
		d.Metrics = NewMetrics(nil)
	}
	if d.Trace == nil {
		d.Trace = slog.New(slog.DiscardHandler)
	}
	if d.Clock == nil {
		d.Clock = time.Now
	}
	if d.NewID == nil {
		d.NewID = uuid.NewV7
	}
	if d.MaxMessage == 0 {
		d.MaxMessage = 1 << 20
	}
	if d.WritePatience == 0 {
		d.WritePatience = 10 * time.Second
	}
	if d.ReadPatience == 0 {
		d.ReadPatience = 2 * time.Second
	}
	return d
}

// plane is the handler's state: its parts, and two small things of its own
// that every process may lose.
type plane struct {
	Deps
	recent  *recentWrites
	pulled  lastPulled
	health  healthCache
	streams revalidator
	held    held
	// document is the OpenAPI document's bytes.
	document func() ([]byte, error)
}

// New returns the handler of every route in Routes. It starts nothing that
// outlives a request by more than a read of the log's head.
func New(d Deps) http.Handler { return newDispatcher(newPlane(d), Routes()) }

// Split is New in two handlers: admin serves the operators' routes, front all
// others, and both what supervisors ask.
func Split(d Deps) (front, admin http.Handler) {
	p := newPlane(d)
	var fronts, admins []Route
	for _, r := range Routes() {
		if r.Admin() || r.Needs == access.Anyone {
			admins = append(admins, r)
		}
		if !r.Admin() {
			fronts = append(fronts, r)
		}
	}
	at, operators := newDispatcher(p, fronts), newDispatcher(p, admins)
	at.elsewhere, at.address = operators, "--http"
	operators.elsewhere, operators.address = at, "--admin"
	return at, operators
}

// encoded is the same for every plane of a process.
var encoded = sync.OnceValues(func() ([]byte, error) { return Describe().Encode() })

func newPlane(d Deps) *plane {
	d = d.withDefaults()
	return &plane{
		Deps: d, recent: newRecentWrites(4096),
		document: encoded,
	}
}
