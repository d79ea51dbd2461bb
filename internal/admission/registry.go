package admission

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// Source is where the registry finds the policies of the log;
// *projector.Projector is one.
type Source interface {
	// AdmissionVersion is the log sequence of the last change. It is asked for
	// every request.
	AdmissionVersion() uint64
	Read(f func(v *projector.View))
}

// Metrics counts what the registry does. The zero value counts nothing.
type Metrics struct {
	Evaluated func(outcome string)                         // a request's: a Status in lower case, or an Outcome
	Policy    func(l Level, o Outcome, took time.Duration) // each policy that a request met
	Compiled  func(took time.Duration)
	Version   func(version uint64) // of the policies that decide from now on
}

// RegistryOptions has a useful zero value.
type RegistryOptions struct {
	Limits  Limits
	Metrics Metrics
	// ProgramBytes bounds about what is kept of compiled code: of the policies that were
	// asked last. Zero: 512 MiB.
	ProgramBytes int
	// Decided is called with every decision, on the goroutine of the request; nil:
	// nobody is.
	Decided func(Decision)
}

// Decision is one request and what became of it.
type Decision struct {
	Request Request
	Result  Result
	Err     error
	DryRun  bool // nothing follows from it
	Began   time.Time
	Took    time.Duration
}

// Registry evaluates requests by the policies of the log. Its policies are a
// snapshot in memory that follows the fold: nothing is read from a store while
// a request is evaluated, and who has seen a change applied is judged by it.
type Registry struct {
	source  Source
	engine  *Engine
	opt     RegistryOptions
	current atomic.Pointer[Snapshot]
	mu      sync.Mutex // of refresh

	// compiled are policies that were checked lately and may come back from the
	// log: a change is compiled once in the process that takes it.
	compiled *cache[*Compiled]
	drafting *drafting
	programs *programs
}

// readyBytes bounds the code of the policies in Registry.compiled.
const readyBytes = 4 << 20

// NewRegistry makes a registry; it reads nothing until it is asked.
func NewRegistry(source Source, opt RegistryOptions) *Registry {
	r := &Registry{source: source, opt: opt, compiled: newCache[*Compiled](readyBytes), drafting: newDrafting()}
	r.programs = newPrograms(cmp.Or(opt.ProgramBytes, programBytes), opt.Metrics.Compiled)
	eopt := EngineOptions{Limits: opt.Limits}
	if count := opt.Metrics.Policy; count != nil {
		eopt.Observe = func(p *Policy, o Outcome, took time.Duration) { count(p.Level, o, took) }
	}
	r.engine = NewEngine(eopt)
	r.current.Store(NewSnapshot(0))
	return r
}

// Engine is what evaluates.
func (r *Registry) Engine() *Engine { return r.engine }

// Snapshot is the policies as the fold has them now. What changed was compiled when it was
// checked, or is when a request needs it: a start compiles nothing.
func (r *Registry) Snapshot(ctx context.Context) (*Snapshot, error) {
	if s := r.current.Load(); s.Version() >= r.source.AdmissionVersion() {
		return s, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.current.Load()
	var changed []projector.AdmissionPolicy
	var last uint64
	r.source.Read(func(v *projector.View) { changed, last = v.Admission().Since(s.Version()) })
	if last <= s.Version() {
		return s, nil
	}
	next := s
	for _, p := range changed {
		if p.Document == nil {
			next = next.Without(last, string(p.ID))
			continue
		}
		if ctx.Err() != nil {
			return nil, ctx.Err() // whoever comes next begins again
		}
		next = next.with(last, filed{r.checked(PolicyOf(p.ID, *p.Document), next), p.Version})
	}
	r.current.Store(next)
	if r.opt.Metrics.Version != nil {
		r.opt.Metrics.Version(last)
	}
	return next, nil
}

// checked is a policy of the log: the one that was checked or decides now, where it is
// the same to the letter, with all that is remembered of it.
func (r *Registry) checked(p Policy, now *Snapshot) *Compiled {
	next := r.programs.unread(p)
	if key, err := json.Marshal(p); err == nil {
		if c, ok := r.compiled.find(string(key)); ok {
			return c
		}
	}
	if c := now.Find(p.ID); c != nil && reflect.DeepEqual(c.policy, next.policy) {
		return c
	}
	return next
}

func why(err error) *CompileError {
	var faults *CompileError
	if errors.As(err, &faults) {
		return faults
	}
	return oneFault(CodeForbidden, nil, "%v", err)
}

// Run keeps the snapshot near the fold until ctx ends, so that a request seldom
// waits for what changed.
func (r *Registry) Run(ctx context.Context, changed func() <-chan struct{}) error {
	for {
		next := changed()
		if _, err := r.Snapshot(ctx); err != nil {
			return nil // ctx has ended
		}
		select {
		case <-next:
		case <-ctx.Done():
			return nil
		}
	}
}

// Compile compiles a policy of the log, or finds it compiled. Errors are those of
// [Compile].
func (r *Registry) Compile(ctx context.Context, p Policy) (*Compiled, error) {
	return r.compile(ctx, p, func() (func(), error) { return func() {}, nil })
}

// compile is Compile of what begin lets begin.
func (r *Registry) compile(ctx context.Context, p Policy, begin func() (done func(), err error)) (*Compiled, error) {
	key, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("name policy %s: %w", p.ID, err)
	}
	return r.compiled.get(string(key), func() (*Compiled, error) {
		done, err := begin()
		if err != nil {
			return nil, err
		}
		c, err := compileThen(ctx, p, done)
		if err != nil {
			return nil, err
		}
		if r.opt.Metrics.Compiled != nil {
			r.opt.Metrics.Compiled(c.CompileTime())
		}
		r.programs.take(c)
		return c, nil
	})
}

// Evaluate runs the chain of the policies of the log. Errors are those of
// [Engine.Evaluate].
func (r *Registry) Evaluate(ctx context.Context, req Request, opt Options) (Result, error) {
	s, err := r.Snapshot(ctx)
	if err != nil {
		return Result{}, err
	}
	began := time.Now()
	result, err := r.engine.Evaluate(ctx, s, req, opt)
	if r.opt.Metrics.Evaluated != nil {
		r.opt.Metrics.Evaluated(OutcomeOf(result, err))
	}
	if r.opt.Decided != nil {
		r.opt.Decided(Decision{Request: req, Result: result, Err: err, DryRun: opt.DryRun, Began: began, Took: time.Since(began)})
	}
	return result, err
}

const (
	outcomeApproved = "approved"
	outcomeModified = "modified"
	outcomeInvalid  = "invalid"
	outcomeBusy     = "busy"
)

// Outcomes of a request, as [OutcomeOf] names them.
var Outcomes = []string{
	outcomeApproved, outcomeModified, string(OutcomeRejected), string(OutcomeConflict), string(OutcomeError), string(OutcomeTimeout), outcomeInvalid, outcomeBusy,
}

// OutcomeOf names what became of a request, in one word.
func OutcomeOf(r Result, err error) string {
	var invalid *RequestError
	switch {
	case err == nil && r.Status == Modified:
		return outcomeModified
	case err == nil:
		return outcomeApproved
	case errors.As(err, &invalid):
		return outcomeInvalid
	case errors.Is(err, ErrBusy):
		return outcomeBusy
	}
	return string(outcomeOf(err))
}

// PolicyOf is the engine's form of a policy of the log.
func PolicyOf(id policy.AdmissionPolicyID, d policy.AdmissionPolicy) Policy {
	level, _ := ParseLevel(string(d.Level)) // the log holds no other
	return Policy{
		ID: string(id), Name: d.Name, Level: level, Priority: int(d.Priority), TenantID: d.Tenant, UserID: d.User,
		ServiceType: d.ServiceType, LabelSelector: d.Labels, Rego: d.Rego, Mode: Mode(d.Mode), Enabled: !d.Disabled,
	}
}
