package admission

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/metrics"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// watch is how the caller of a chain stops it.
type watch struct {
	current atomic.Pointer[evaluation]
	reason  atomic.Pointer[error] // why the chain must end
	place   *place
	ended   chan struct{} // closed by stop, if anybody may wait for it
}

// errChainTime is a chain that used up its time.
var errChainTime = errors.New("the time of the whole chain is used up")

// stop tells the chain to end; once.
func (w *watch) stop(why error) {
	w.reason.Store(&why)
	if w.ended != nil {
		close(w.ended)
	}
	if now := w.current.Load(); now != nil {
		now.Cancel()
	}
}

// stopped is why the chain must end, or nil.
func (w *watch) stopped() error {
	if why := w.reason.Load(); why != nil {
		return *why
	}
	return nil
}

// abandon leaves behind a chain that does not end. Its policy is not evaluated
// again until it has, so a policy takes at most one core from the others.
func (w *watch) abandon(done <-chan error) error {
	now := w.current.Load()
	if now == nil {
		return fmt.Errorf("%w: %w", ErrTimeout, w.stopped())
	}
	now.policy.runaway.Add(1)
	go func() {
		<-done
		now.policy.runaway.Add(-1)
	}()
	return now.policy.failed(CodeTimeout, "", "does not stop; it is suspended until it does")
}

// failed makes a PolicyError of the policy.
func (c *Compiled) failed(code, field, format string, args ...any) *PolicyError {
	return &PolicyError{PolicyID: c.policy.ID, PolicyName: c.policy.Name, Code: code, Field: field, Message: fmt.Sprintf(format, args...)}
}

// ask evaluates a policy. The answer is nil when it has no opinion; size is
// roughly what the answer takes as JSON.
func (e *Engine) ask(ctx context.Context, w *watch, p *Compiled, made *program, who asker, input *ast.Term) (answer map[string]any, size int, err error) {
	if p.runaway.Load() > 0 {
		return nil, 0, p.failed(CodeSuspended, "", "an earlier evaluation does not end; the policy is suspended until it does")
	}
	if err := p.breaker.admit(p, who, e.clock()); err != nil {
		return nil, 0, err
	}
	now := newEvaluation(p, who, e.lanes, w.place, e.limits.PolicyTimeout)
	defer now.leave()
	w.current.Store(now)
	if w.stopped() != nil {
		now.Cancel()
	}
	value, err := made.eval(ctx, now, input)
	if now.suspended != nil {
		return nil, 0, now.suspended
	}
	cancelled := err != nil && topdown.IsCancel(err)
	p.breaker.ended(who, e.clock(), cancelled, !cancelled || now.ranOut)
	if err != nil {
		return nil, 0, e.evalError(w, p, err)
	}
	if _, null := value.(ast.Null); value == nil || null && p.dialect().nullIsSilence {
		return nil, 0, nil
	}
	m := meter{e.limits.DecisionBytes, e.limits.Depth}
	converted, err := m.fromRego(value)
	if err != nil {
		return nil, 0, decisionError(p, err)
	}
	answer, ok := converted.(map[string]any)
	if !ok {
		return nil, 0, p.failed(CodeInvalidDecision, p.dialect().entry, "is %s, not an object", kindOf(converted))
	}
	return answer, e.limits.DecisionBytes - m.bytes, nil
}

func decisionError(p *Compiled, err error) error {
	code := CodeInvalidDecision
	if errors.Is(err, errTooLarge) || errors.Is(err, errTooDeep) {
		code = CodeTooLarge
	}
	field := p.dialect().entry
	var l *located
	if errors.As(err, &l) {
		field = l.path.String()
		if errors.Is(l.err, errTooLarge) || errors.Is(l.err, errTooDeep) {
			code = CodeTooLarge
		}
	}
	return p.failed(code, field, "%v", err)
}

// evalError says what stopped a policy.
func (e *Engine) evalError(w *watch, p *Compiled, err error) error {
	var at *topdown.Error
	switch {
	case !errors.As(err, &at):
		return p.failed(topdown.InternalErr, "", "%v", err)
	case topdown.IsCancel(err) && w.stopped() != nil:
		return p.failed(CodeTimeout, "", "%v", w.stopped())
	case topdown.IsCancel(err):
		return p.failed(CodeTimeout, "", "takes longer than %v", e.limits.PolicyTimeout)
	}
	failed := p.failed(at.Code, "", "%s", shortened(at.Message, maxMessage)) // it may quote a whole text of the request
	if at.Location != nil {
		failed.Row, failed.Col = at.Location.Row, at.Location.Col
	}
	return failed
}

// eval is the value of the entry point, nil when it is undefined.
func (c *program) eval(ctx context.Context, cancel topdown.Cancel, input *ast.Term) (value ast.Value, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the evaluator failed: %v", r)
		}
	}()
	query := topdown.NewQuery(c.query).
		WithQueryCompiler(c.queries).
		WithCompiler(c.compiler).
		WithStore(nothing{}).
		WithInput(input).
		WithCancel(cancel).
		WithStrictBuiltinErrors(true).
		WithTime(epoch).
		WithMetrics(metrics.NoOp())
	if c.cover != nil {
		query = query.WithQueryTracer(c.cover)
	}
	err = query.Iter(ctx, func(r topdown.QueryResult) error {
		value = r[decisionVar.Value.(ast.Var)].Value
		return nil
	})
	return value, err
}

// epoch is the time that policies see, should one find a way to ask: the same
// request must get the same answer when it is replayed.
var epoch = time.Unix(0, 1).UTC()

// nothing is the store of every policy: there is no data but its own rules.
type nothing struct{ storage.Store }

var errNoData = &storage.Error{Code: storage.NotFoundErr, Message: "there is no data"}

func (nothing) Read(context.Context, storage.Transaction, storage.Path) (any, error) {
	return nil, errNoData
}
