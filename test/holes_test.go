package test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/admission"
	"github.com/edictdev/edict/internal/test/naive"
)

// engine is what the twelve tests below ask of an admission engine. Both
// engines are given the same policies, in the dialect of existing clients.
type engine interface {
	put(t *testing.T, p naive.Policy)
	drop(t *testing.T, id string)
	// evaluate says in a line what came out.
	evaluate(ctx context.Context, t *testing.T, spec string) string
	// while runs change in the middle of an evaluation, after it has begun.
	while(t *testing.T, spec string, change func()) string
	// patience is how long a test waits for what should end.
	patience() time.Duration
}

// ours is the engine of the product.
type ours struct{ snapshot *admission.Snapshot }

func (o *ours) patience() time.Duration { return time.Minute }

func (o *ours) put(t *testing.T, p naive.Policy) {
	c, err := admission.Compile(t.Context(), admission.Policy{
		ID: p.ID, Name: p.ID, Level: admission.Level(p.Level), Priority: p.Priority, LabelSelector: p.Selector, Rego: p.Rego, Enabled: true,
	})
	if err == nil { // what does not compile is not registered
		o.snapshot = o.snapshot.With(0, c)
	}
}

func (o *ours) drop(_ *testing.T, id string) { o.snapshot = o.snapshot.Without(0, id) }

func (o *ours) evaluate(ctx context.Context, t *testing.T, spec string) string {
	return o.on(ctx, t, o.snapshot, spec)
}

func (o *ours) while(t *testing.T, spec string, change func()) string {
	seen := o.snapshot
	change()
	return o.on(t.Context(), t, seen, spec)
}

func (o *ours) on(ctx context.Context, t *testing.T, s *admission.Snapshot, text string) string {
	spec, err := admission.ParsePayload([]byte(text))
	require.NoError(t, err)
	service, _ := admission.ServiceTypeOf(spec)
	e := admission.NewEngine(admission.EngineOptions{Limits: admission.Limits{PolicyTimeout: time.Second, ChainTimeout: 10 * time.Second}})
	r, err := e.Evaluate(ctx, s, admission.Request{ServiceType: service, Labels: admission.LabelsOf(spec), Payload: spec}, admission.Options{})
	var (
		rejection *admission.Rejection
		conflict  *admission.Conflict
		failure   *admission.PolicyError
	)
	switch {
	case errors.As(err, &rejection):
		return "rejected by " + rejection.PolicyID
	case errors.As(err, &conflict):
		return "conflict by " + conflict.PolicyID
	case errors.As(err, &failure):
		return "error by " + failure.PolicyID
	}
	require.NoError(t, err)
	return outcome(string(r.Status), r.Payload, r.ServiceProvider.Value)
}

// simple is the naive one.
type simple struct{ *naive.Engine }

func (simple) patience() time.Duration { return 300 * time.Millisecond }

func (s simple) put(_ *testing.T, p naive.Policy) { _ = s.Put(p) } // a failure shows when it is evaluated
func (s simple) drop(t *testing.T, id string)     { require.NoError(t, s.Delete(id)) }

func (s simple) evaluate(ctx context.Context, t *testing.T, text string) string {
	d := json.NewDecoder(strings.NewReader(text))
	var spec map[string]any
	require.NoError(t, d.Decode(&spec))
	r, err := s.Evaluate(ctx, spec)
	var refused *naive.Error
	if errors.As(err, &refused) {
		return refused.Kind + " by " + refused.Policy
	}
	require.NoError(t, err)
	return outcome(r.Status, r.Spec, r.Provider)
}

func (s simple) while(t *testing.T, spec string, change func()) string {
	s.Between = change
	defer func() { s.Between = nil }()
	return s.evaluate(t.Context(), t, spec)
}

func outcome(status string, spec map[string]any, provider string) string {
	text, _ := json.Marshal(spec)
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", status, text, provider))
}

const (
	global = int(admission.Global)
	user   = int(admission.User)
)

// says is a policy with a decision.
func says(id string, level, priority int, decision string) naive.Policy {
	return naive.Policy{ID: id, Level: level, Priority: priority, Rego: "package " + id + "\n\nmain := " + decision}
}

// chain puts policies and evaluates one request.
func chain(e engine, t *testing.T, spec string, policies ...naive.Policy) string {
	for _, p := range policies {
		e.put(t, p)
	}
	return e.evaluate(t.Context(), t, spec)
}

// expect is a complaint unless the outcome is what it must be.
func expect(want, got string) error {
	if got != want {
		return fmt.Errorf("want %q, got %q", want, got)
	}
	return nil
}

// holes are the twelve that the field's engine has. Each finds out whether an
// engine has one, and complains then.
var holes = []struct {
	name string
	find func(t *testing.T, e engine) error
}{
	{"H1 a request is outside a constraint from the beginning", func(t *testing.T, e engine) error {
		return expect("rejected by guard", chain(e, t, `{"cpu":16}`, says("guard", global, 1, `{"constraints": {"cpu": {"maximum": 4}}}`)))
	}},
	{"H2 the parent of a constrained field is taken away", func(t *testing.T, e engine) error {
		guard := says("guard", global, 1, `{"patch": {"a": {"b": 1}}, "constraints": {"a.b": {"const": 1}}}`)
		for _, patch := range []string{`null`, `"scalar"`, `[]`} {
			if err := expect("conflict by thief", chain(e, t, `{}`, guard, says("thief", user, 1, `{"patch": {"a": `+patch+`}}`))); err != nil {
				return err
			}
		}
		return nil
	}},
	{"H3 a provider is excluded after it was chosen", func(t *testing.T, e engine) error {
		return expect("conflict by later", chain(e, t, `{}`,
			says("early", global, 1, `{"selected_provider": "aws"}`),
			says("later", user, 1, `{"service_provider_constraints": {"allow_list": ["gcp"]}}`)))
	}},
	{"H4 a lock is replaced by a weaker one", func(t *testing.T, e engine) error {
		return expect("conflict by thief", chain(e, t, `{"a":"x"}`,
			says("guard", global, 1, `{"constraints": {"a": {"type": "string"}}}`),
			says("thief", user, 1, `{"constraints": {"a": {"type": "integer"}}, "patch": {"a": 7}}`)))
	}},
	{"H5 two paths are taken for one", func(t *testing.T, e engine) error {
		return expect(`APPROVED {"a":{"b":1},"a.b":2,"a_b":2}`, chain(e, t, `{"a":{"b":1},"a_b":2,"a.b":2}`,
			says("guard", global, 1, `{"constraints": {"a.b": {"const": 1}, "a_b": {"const": 2}, "/a.b": {"const": 2}}}`),
			says("other", user, 1, `{"patch": {"a_b": 2, "c": null}}`),
			says("third", user, 2, `{"patch": {"a": {"b": 1}, "d": null}}`),
			says("fourth", user, 3, `{"patch": {"a.b": 2, "e": null}}`)))
	}},
	{"H6 a patch to the same number counts as a change", func(t *testing.T, e engine) error {
		return expect(`APPROVED {"cpu":4}`, chain(e, t, `{"cpu":4}`, says("same", global, 1, `{"patch": {"cpu": 4}}`)))
	}},
	{"H7 the next policy is blamed for a broken schema", func(t *testing.T, e engine) error {
		return expect("error by author", chain(e, t, `{"a":"x"}`,
			says("author", global, 1, `{"constraints": {"a": {"pattern": "("}}}`),
			says("bystander", user, 1, `{"patch": {"a": "y"}}`)))
	}},
	{"H8 a policy breaks another by sharing its package", func(t *testing.T, e engine) error {
		sabotage := says("guard", user, 1, `{"patch": {"a": 2}}`)
		sabotage.ID = "saboteur"
		return expect(`MODIFIED {"a":2}`, chain(e, t, `{"a":1}`, says("guard", global, 1, `{"patch": {"a": 1}}`), sabotage))
	}},
	{"H8 a policy reads what another declares", func(t *testing.T, e engine) error {
		guard := says("guard", global, 1, "{\"rejected\": input.spec.token == secret}\n\nsecret := \"hush\"")
		return expect(`APPROVED {"token":""}`, chain(e, t, `{"token":""}`, guard, says("spy", user, 1, `{"patch": {"leak": data.guard.secret}}`)))
	}},
	{"H9 a policy reaches the network", func(t *testing.T, e engine) error {
		var reached atomic.Int32
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
		defer server.Close()
		chain(e, t, `{}`, says("caller", user, 1, `{"patch": {"status": http.send({"method": "get", "url": "`+server.URL+`"}).status_code}}`))
		if n := reached.Load(); n > 0 {
			return fmt.Errorf("the server was reached %d times", n)
		}
		return nil
	}},
	{"H10 a policy does not end", func(t *testing.T, e engine) error {
		ctx, cancel := context.WithCancel(t.Context())
		e.put(t, says("loop", user, 1, `{"rejected": count([1 | some i in numbers.range(1, 90000); some j in numbers.range(1, 90000); i * j < 0]) > 0}`))
		ended := make(chan string, 1)
		go func() { ended <- e.evaluate(ctx, t, `{}`) }()
		defer cancel()
		select {
		case got := <-ended:
			return expect("error by loop", got)
		case <-time.After(e.patience()):
			cancel()
			<-ended
			return errors.New("it runs and runs")
		}
	}},
	{"H11 an evaluation sees half of a change", func(t *testing.T, e engine) error {
		// At every moment one of the two is there, and each rejects.
		e.put(t, says("before", global, 1, `{"rejected": true}`))
		got := e.while(t, `{}`, func() {
			e.put(t, says("after", global, 2, `{"rejected": true}`))
			e.drop(t, "before")
		})
		return expect("rejected by before", got)
	}},
	{"H12 a request chooses its own policies by a label", func(t *testing.T, e engine) error {
		guard := says("guard", global, 1, `{"rejected": true}`)
		guard.Selector = map[string]string{"service_type": "vm"}
		return expect("rejected by guard", chain(e, t, `{"service_type":"vm","metadata":{"labels":{"service_type":"zz"}}}`, guard))
	}},
}

// TestTheTwelveHolesAreClosed runs each test against an engine that has all of
// them, where it must complain, and against ours, where it must not.
func TestTheTwelveHolesAreClosed(t *testing.T) {
	for _, hole := range holes {
		t.Run(hole.name, func(t *testing.T) {
			complaint := hole.find(t, simple{naive.New()})
			require.Error(t, complaint, "the naive engine is expected to have this hole; does the test look for it?")
			t.Logf("the naive engine: %v", complaint)
			require.NoError(t, hole.find(t, &ours{admission.NewSnapshot(0)}))
		})
	}
}
