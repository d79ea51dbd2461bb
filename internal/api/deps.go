package api

import (
	"context"
	"log/slog"
	"net/http"
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

// Deps are the parts that the API stands on. Log, Model and Relay are required.
type Deps struct {
	Log      Log
	Model    Model
	Relay    Relay
	Composer *snapshot.Composer // nil: one of its own
	Tables   *snapshot.Tables   // nil: its own, of the default capacity
	// Admission judges requests; nil: a registry over Model.
	Admission *admission.Registry
	// Convergence follows nodes' reports; nil: nobody does.
	Convergence Convergence
	// Fleet takes samples of all nodes; nil: nobody does.
	Fleet Fleet

	AccessDeps
	KeyDeps
	StatusDeps
	HistoryDeps
	CheckpointDeps
	LimitDeps
	ObserveDeps

	// Clock and NewID are the wall clock and UUIDv7, unless a test says
	// otherwise.
	Clock func() time.Time
	NewID func() (uuid.UUID, error)
}

// AccessDeps say who may do what.
type AccessDeps struct {
	Access  Access          // nil: whoever reaches the API may do anything
	Local   bool            // and the API is reached from this machine alone
	Limiter *access.Limiter // of each principal; nil: none
	// Failures counts wrong credentials by address; nil: nobody does.
	Failures *access.Failures
	// Sessions lend credentials to browsers; nil: nobody has one.
	Sessions *access.Sessions
	// SignIn has people sign in to the console at an issuer; nil, or its nil: nobody does now.
	SignIn func() *access.SignIn
}

// KeyDeps hold the plane's keys.
type KeyDeps struct {
	// Signer is the plane's key as it is now, with which nodes register, and the
	// one before while nodes accept it, else nil. Without it: 503.
	Signer    func() (current, previous Signer)
	Keys      func() []resource.Key
	RotateKey Rotator // nil: 503
}

// StatusDeps are what /v1/status shows, and /readyz checks.
type StatusDeps struct {
	Name       string        // of this worker
	Durability func() string // strict, relaxed or unknown; nil: unknown
	Partitions func() ([]resource.Partition, error)
	Workers    func(head uint64) []resource.Worker // all workers alive, and how far each is behind head; nil: this one
	Past       func() projector.PastStatus         // how far back it is known what nodes missed; nil: no longer than the fold stands
	LogURL     func() string                       // where NATS clients reach the log, without a password; nil or "": nowhere
	// Witnessed is the last log sequence that the log's witness confirms;
	// nil: there is none.
	Witnessed func() uint64
	// Origin is where the log begins, if it was compacted; nil: it is not known.
	Origin func() (o streams.Origin, ok bool)
	// LogPerDay is how many bytes the log grows by in 24 hours, LogRoom how many the disk
	// has for it; not known, or nil: absent.
	LogPerDay, LogRoom func() (bytes uint64, known bool)
	// DiskFree is what is free where the data lies, Storage how the read model's store
	// is doing, JetStream what the plane takes of its server; nil: not shown.
	DiskFree  func() (bytes uint64, known bool)
	Storage   func() projector.StorageStatus
	JetStream func(ctx context.Context) (streams.Usage, error)
	Checks    []Check // further ones for /readyz
}

// HistoryDeps read the log's past.
type HistoryDeps struct {
	// Event reads one event of the log; nil: releases of the past are not shown.
	Event func(ctx context.Context, seq uint64) (streams.Message, error)
	// NextOf is the first event from a sequence on that has the id of e, on its subject, else
	// streams.ErrNotFound. Without it and Event no key is held against its first use.
	NextOf func(ctx context.Context, e policy.Event, from uint64) (streams.Message, error)
	// Trail reads events of the log above a sequence, oldest first, at most limit;
	// nil: 503.
	Trail func(ctx context.Context, after uint64, limit int) ([]Trailed, error)
	// SeqAt is the last log sequence whose timestamp is not after a moment; nil: 503.
	SeqAt func(ctx context.Context, at time.Time) (uint64, error)
	// History folds the log up to a moment of the past; nil: 503.
	History *snapshot.History
	// Decisions are what admission policies decided; nil: 503.
	Decisions DecisionLog
}

// CheckpointDeps make and list checkpoints; nil: 503.
type CheckpointDeps struct {
	// SaveSnapshot makes a checkpoint of this worker's read model.
	SaveSnapshot func(ctx context.Context) (snapshot.Manifest, error)
	// ListSnapshots lists those of the log, newest first.
	ListSnapshots func(ctx context.Context) ([]snapshot.Manifest, error)
	// Compact makes an event the origin of the log, and removes all before it.
	Compact func(ctx context.Context, seq uint64, archive string) (snapshot.OriginManifest, error)
}

// LimitDeps say when a write or a read is refused, and how long it may take.
type LimitDeps struct {
	// Writable says why the plane takes no writes now (507 storage_low); nil: it always does.
	Writable func() error
	// Damaged says what the log has lost or changed: the fold stands, and the
	// plane takes no writes (503 log_unavailable). nil: nobody watches over it.
	Damaged func() error
	// Held is the last sequence of the log as this worker found it at its start:
	// until the fold has passed it nothing is answered from the read model (503).
	Held uint64
	// ProjectBytes is how much of the log a project takes in 24 hours before its
	// writes are refused (429 project_over_share); 0: any number.
	ProjectBytes uint64
	// ShutOut are the projects whose producers an embedded server shuts out for a while, and
	// until when; nil: none.
	ShutOut func() map[uuid.UUID]time.Time
	// MaxMessage is the most bytes of one message of the log; 0: 1 MiB.
	MaxMessage int
	// Patience of a write for its verdict (0: 10 s), of a node's read for the log's
	// head (0: 2 s), and of a rollout for tables that nobody has asked for yet (0: 2 s).
	WritePatience, ReadPatience, TablePatience time.Duration
	// Looked is how many decisions (0: 10,000), or events of the audit (0: 20,000), one
	// answer looks through for those that are asked for. DecisionBytes of decisions, as the
	// log has them, fill a page (0: 8 MiB).
	Looked, DecisionBytes int
}

// ObserveDeps take what operators observe.
type ObserveDeps struct {
	MetricsPage http.Handler // /metrics; nil: 404
	Metrics     *Metrics     // nil: quiet
	Trace       *slog.Logger // nil: silent
	Tracer      Tracer       // nil: nothing is recorded
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
