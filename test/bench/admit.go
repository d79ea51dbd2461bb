package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"

	"github.com/edictdev/edict/internal/admission"
)

// The policies of a chain that does some of everything: a default, a
// constraint that is tightened, a choice of provider.
var admitCodes = []string{
	`package dcm.policy.defaults

result := {
	"patch": {"metadata": {"labels": {"managed": "yes"}}, "billing": object.get(input.current_request_payload, "team", "none")},
	"constraints": {"cpu": {"minimum": 1, "maximum": 16}, "region": {"enum": ["eu-1", "eu-2", "us-1"]}},
	"service_provider": {"constraints": {"allow_list": ["aws", "gcp", "azure"]}},
}
`,
	`package dcm.policy.tenant

result := {
	"reject": input.current_request_payload.cpu > 12,
	"constraints": {"cpu": {"maximum": 12}},
	"service_provider": {"value": provider},
}

provider := "aws" if startswith(input.current_request_payload.region, "eu")
`,
	`package dcm.policy.user

result := {"patch": {"memory": input.current_request_payload.cpu * 2}} if input.current_request_payload.cpu < 10
`,
}

const admitPayload = `{"service_type":"vm","name":"web-1","team":"shop","cpu":4,"memory":4,"disk":100,"region":"eu-1",
"image":"debian-13","public":false,"metadata":{"labels":{"app":"web","env":"prod"}},"networks":["front","back"],"replicas":3}`

// admitPolicies are three policies that match the payload among others that do
// not.
func admitPolicies(ctx context.Context, registered int) (*admission.Snapshot, error) {
	s := admission.NewSnapshot(0)
	for i := range registered {
		c, err := admission.Compile(ctx, admitPolicy(i))
		if err != nil {
			return nil, err
		}
		s = s.With(uint64(i+1), c)
	}
	return s, nil
}

func admitPolicy(i int) admission.Policy {
	p := admission.Policy{ID: fmt.Sprintf("policy-%05d", i), Name: fmt.Sprint(i), Level: admission.User, Priority: i, Enabled: true}
	if i < len(admitCodes) {
		p.ServiceType, p.Level, p.Rego = "vm", admission.Levels()[i], admitCodes[i]
		return p
	}
	p.ServiceType, p.Rego = fmt.Sprintf("other-%d", i), admitCodes[i%len(admitCodes)]
	return p
}

// admitFloor is the same queries, prepared, each evaluated on an input that is
// there already and followed by nothing.
type admitFloor struct {
	queries []rego.PreparedEvalQuery
	input   ast.Value
}

func newAdmitFloor(ctx context.Context, payload map[string]any) (*admitFloor, error) {
	f := &admitFloor{}
	for _, code := range admitCodes {
		module, err := ast.ParseModule("", code)
		if err != nil {
			return nil, err
		}
		q, err := rego.New(rego.ParsedModule(module), rego.Query(module.Package.Path.String()+".result"), rego.StrictBuiltinErrors(true)).PrepareForEval(ctx)
		if err != nil {
			return nil, err
		}
		f.queries = append(f.queries, q)
	}
	var err error
	f.input, err = ast.InterfaceToValue(map[string]any{
		"original_request_payload": payload, "current_request_payload": payload, "constraints": map[string]any{}, "user_id": "", "tenant_id": "",
		"service_provider": map[string]any{"value": "", "constraints": map[string]any{}},
	})
	return f, err
}

func (f *admitFloor) run(ctx context.Context) error {
	for i, q := range f.queries {
		rs, err := q.Eval(ctx, rego.EvalParsedInput(f.input))
		if err != nil {
			return err
		}
		if len(rs) != 1 {
			return fmt.Errorf("query %d has %d results", i, len(rs))
		}
	}
	return nil
}

// timed is the time that one of n calls takes.
func timed(n int, f func() error) (time.Duration, error) {
	runtime.GC()
	began := time.Now()
	for range n {
		if err := f(); err != nil {
			return 0, err
		}
	}
	return time.Since(began) / time.Duration(n), nil
}

const (
	admitFew    = 100
	admitMany   = 10_000
	admitCalls  = 2_000
	admitRounds = 3 // of each measure within one taking
)

func admit(ctx context.Context, e *env) ([]line, error) {
	few, err := admitPolicies(ctx, admitFew)
	if err != nil {
		return nil, err
	}
	many, err := admitPolicies(ctx, e.scale(admitMany))
	if err != nil {
		return nil, err
	}
	payload, err := admission.ParsePayload([]byte(admitPayload))
	if err != nil {
		return nil, err
	}
	floor, err := newAdmitFloor(ctx, payload)
	if err != nil {
		return nil, err
	}
	engine := admission.NewEngine(admission.EngineOptions{Limits: admission.Limits{PolicyTimeout: time.Minute, ChainTimeout: time.Minute}})
	request := admission.Request{ServiceType: "vm", Labels: admission.LabelsOf(payload), Payload: payload}
	chain := func(s *admission.Snapshot) func() error {
		return func() error {
			r, err := engine.Evaluate(ctx, s, request, admission.Options{})
			if err == nil && (r.Status != admission.Modified || r.ServiceProvider.Value != "aws" || fmt.Sprint(r.Payload["memory"]) != "8") {
				err = errors.New("the chain did not do what it is there for")
			}
			return err
		}
	}
	calls := e.scale(admitCalls)
	var small, large, bare, created, createdMany samples
	for range max(e.rounds(), 1) * admitRounds {
		for _, m := range []struct {
			into *samples
			n    int
			f    func() error
		}{
			{&bare, calls, func() error { return floor.run(ctx) }},
			{&small, calls, chain(few)},
			{&large, calls, chain(many)},
			{&created, 100, create(ctx, few)},
			{&createdMany, 100, create(ctx, many)},
		} {
			took, err := timed(m.n, m.f)
			if err != nil {
				return nil, err
			}
			*m.into = append(*m.into, float64(took.Nanoseconds())/1e3)
		}
	}
	return []line{
		*figure(fmt.Sprintf("a chain of 3 matching of %d", few.Len()), "us", small).
			beside("the same queries, prepared, on a prebuilt AST input", bare).ratioAtMost(3),
		*figure(fmt.Sprintf("a chain of 3 matching of %d", many.Len()), "us", large).
			beside(fmt.Sprintf("the chain of 3 of %d", few.Len()), small).ratioAtMost(1.2),
		*figure(fmt.Sprintf("compile and add one to %d", many.Len()), "us", createdMany).
			beside(fmt.Sprintf("the same with %d", few.Len()), created).ratioAtMost(2),
	}, nil
}

// create compiles one more policy and makes the snapshot that has it.
func create(ctx context.Context, s *admission.Snapshot) func() error {
	n := s.Len()
	return func() error {
		c, err := admission.Compile(ctx, admitPolicy(n))
		if err != nil {
			return err
		}
		if next := s.With(s.Version()+1, c).Len(); next != n+1 {
			return fmt.Errorf("the snapshot has %d policies of %d", next, n+1)
		}
		return nil
	}
}
