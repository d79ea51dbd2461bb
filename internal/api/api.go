// Package api is the plane over HTTP: authors write policies and nodes, nodes
// read their state and their events, operators read how the plane is doing.
//
// It is thin. An author's write becomes one event of the log; the fold judges
// it, and the answer is the fold's verdict. What this package adds is form:
// strict inputs, stable codes, RFC 9457 problems for every error, and answers
// that are never older than what a client was sent before. Routes lists every
// route with the types it takes and gives.
package api

import (
	"context"
	"iter"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/projector"
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
	// LastOf is the sequence of the last event on the subject of e; 0: there is none.
	LastOf(ctx context.Context, e policy.Event) (uint64, error)
	Created() time.Time
}

// Model is what the API asks of the read model; *projector.Projector is one.
type Model interface {
	OverlappingPolicies(project uuid.UUID, sel policy.Selector, but uuid.UUID) ([]policy.Policy, error)
	Slugs(project uuid.UUID, ids []uuid.UUID) map[uuid.UUID]string
	Orders(project uuid.UUID, ids []uuid.UUID) (map[uuid.UUID]policy.Order, error)
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
	Touched(project uuid.UUID, sels ...policy.Selector) *projector.Touched
	Facts(only policy.NodeID) (seq uint64, facts iter.Seq2[projector.Fact, error])
}

// Relay is what the API asks of whoever serves nodes live.
type Relay interface {
	// Position is the event id at which everything that was folded has been sent. It is
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
// with the reason when it is not there; an *AdviceError is no reason not to serve.
type Check struct {
	Name  string
	Probe func(ctx context.Context) error
}

// AdviceError is what somebody should see to, while the worker serves.
type AdviceError struct{ Err error }

// Error is what it is about.
func (e *AdviceError) Error() string { return e.Err.Error() }

// Unwrap is the reason.
func (e *AdviceError) Unwrap() error { return e.Err }

// New returns the handler of every route in Routes. It starts nothing that
// outlives a request by more than a read of the log's head.
func New(d Deps) http.Handler {
	p, all := assemble(d)
	return withFileSchemas(withProblemPages(newDispatcher(p, all, func(Route) bool { return true })))
}

// Split is New in two handlers: admin serves the operators' routes, front all
// others, and both what supervisors ask, and what any principal may, such as who it is. Both
// have what is asked of admission policies: services ask at the one, and the operators' console
// at the other.
// Who asks at one for what is at the other learns its address.
func Split(d Deps, frontAddr, adminAddr string) (front, admin http.Handler) {
	p, all := assemble(d)
	at := newDispatcher(p, all, func(r Route) bool { return !r.Admin() })
	operators := newDispatcher(p, all, func(r Route) bool {
		return r.Admin() || r.authored() || r.Needs == access.Evaluate || r.Needs == access.Anyone || r.Needs == access.Known
	})
	at.elsewhere, at.there = operators, adminAddr+", which --admin names"
	operators.elsewhere, operators.there = at, frontAddr+", which --http names"
	return withFileSchemas(withProblemPages(at)), withProblemPages(operators)
}

// encoded is the same for every plane of a process.
var encoded = sync.OnceValues(func() ([]byte, error) { return Describe().Encode() })
