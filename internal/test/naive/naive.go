// Package naive is an admission engine as one would write it in an afternoon:
// it evaluates policies in order, merges their constraints and patches, and has
// all twelve holes that test/holes_test.go looks for. It exists so that each of
// those tests is seen to fail.
package naive

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Policy is a policy of the clients' dialect. A lower level goes first, then a
// lower priority.
type Policy struct {
	ID              string
	Level, Priority int
	Selector        map[string]string
	Rego            string
}

// Error is a request that was not admitted.
type Error struct {
	Kind   string // rejected, conflict or error
	Policy string
	Detail string
}

func (e *Error) Error() string { return fmt.Sprintf("%s by %s: %s", e.Kind, e.Policy, e.Detail) }

// Result is an admitted request.
type Result struct {
	Spec             map[string]any
	Provider, Status string
}

// Engine keeps policies and what they were compiled to in two places.
type Engine struct {
	rows    map[string]Policy
	queries map[string]rego.PreparedEvalQuery
	// Between, if set, runs after the policies were listed and before they are
	// evaluated, where another request may well run.
	Between func()
}

// New is an engine without policies.
func New() *Engine {
	return &Engine{rows: map[string]Policy{}, queries: map[string]rego.PreparedEvalQuery{}}
}

// Put adds a policy and compiles all of them anew, together.
func (e *Engine) Put(p Policy) error {
	e.rows[p.ID] = p
	return e.compile()
}

// Delete removes a policy.
func (e *Engine) Delete(id string) error {
	delete(e.rows, id)
	return e.compile()
}

func (e *Engine) compile() error {
	modules := map[string]*ast.Module{}
	for id, p := range e.rows {
		m, err := ast.ParseModule(id, p.Rego)
		if err != nil {
			return err
		}
		modules[id] = m
	}
	compiler := ast.NewCompiler()
	if compiler.Compile(modules); compiler.Failed() {
		return compiler.Errors
	}
	queries := map[string]rego.PreparedEvalQuery{}
	for id, m := range modules {
		q, err := rego.New(rego.Compiler(compiler), rego.Query(m.Package.Path.String()+".main")).PrepareForEval(context.Background())
		if err != nil {
			return err
		}
		queries[id] = q
	}
	e.queries = queries
	return nil
}

// list are the policies whose selector the request matches, in order.
func (e *Engine) list(spec map[string]any) []Policy {
	labels := map[string]any{"service_type": spec["service_type"]}
	if metadata, ok := spec["metadata"].(map[string]any); ok {
		if given, ok := metadata["labels"].(map[string]any); ok {
			maps.Copy(labels, given)
		}
	}
	var found []Policy
	for _, p := range e.rows {
		matches := true
		for k, v := range p.Selector {
			matches = matches && labels[k] == v
		}
		if matches {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b Policy) int {
		if a.Level != b.Level {
			return a.Level - b.Level
		}
		return a.Priority - b.Priority
	})
	return found
}

// run is one request.
type run struct {
	spec            map[string]any
	provider        string
	constraints     map[string]map[string]any
	allow, patterns []string
}

// Evaluate runs the chain.
func (e *Engine) Evaluate(ctx context.Context, spec map[string]any) (Result, error) {
	policies := e.list(spec)
	if e.Between != nil {
		e.Between()
	}
	r := &run{spec: clone(spec), constraints: map[string]map[string]any{}}
	for _, p := range policies {
		q, ok := e.queries[p.ID]
		if !ok {
			continue
		}
		input := map[string]any{"spec": r.spec, "provider": r.provider, "constraints": r.constraints}
		rs, err := q.Eval(ctx, rego.EvalInput(input))
		if err != nil {
			return Result{}, &Error{"error", "", err.Error()}
		}
		if len(rs) == 0 {
			continue
		}
		answer, ok := rs[0].Expressions[0].Value.(map[string]any)
		if !ok {
			return Result{}, &Error{"error", "", "no object"}
		}
		if err := r.apply(p.ID, answer); err != nil {
			return Result{}, err
		}
	}
	status := "MODIFIED"
	if reflect.DeepEqual(spec, r.spec) {
		status = "APPROVED"
	}
	return Result{r.spec, r.provider, status}, nil
}

// apply lets a decision count; what it does not understand it passes over.
func (r *run) apply(id string, answer map[string]any) error {
	if rejected, _ := answer["rejected"].(bool); rejected {
		reason, _ := answer["rejection_reason"].(string)
		return &Error{"rejected", id, reason}
	}
	constraints, _ := answer["constraints"].(map[string]any)
	for path, v := range constraints {
		if added, ok := v.(map[string]any); ok {
			if err := r.constrain(path, added); err != nil {
				return &Error{"conflict", id, err.Error()}
			}
		}
	}
	restriction, _ := answer["service_provider_constraints"].(map[string]any)
	if allow := texts(restriction["allow_list"]); len(allow) > 0 {
		r.allow = allow
	}
	r.patterns = append(r.patterns, texts(restriction["patterns"])...)
	if patch, ok := answer["patch"].(map[string]any); ok {
		if err := r.check(patch); err != nil {
			return &Error{"conflict", id, err.Error()}
		}
		r.spec = merge(r.spec, patch)
	}
	if chosen, _ := answer["selected_provider"].(string); chosen != "" {
		if !r.allowed(chosen) {
			return &Error{"conflict", id, "provider " + chosen}
		}
		r.provider = chosen
	}
	return nil
}

// constrain keeps the first schema of a path and merges others into it.
func (r *run) constrain(path string, added map[string]any) error {
	old, ok := r.constraints[path]
	if !ok {
		r.constraints[path] = maps.Clone(added)
		return nil
	}
	for k, v := range added {
		switch had, ok := old[k]; {
		case ok && k == "const" && !reflect.DeepEqual(had, v):
			return fmt.Errorf("%s: const", path)
		case ok && strings.HasPrefix(k, "max") && number(v) > number(had), ok && strings.HasPrefix(k, "min") && number(v) < number(had):
			return fmt.Errorf("%s: %s is loosened", path, k)
		default:
			old[k] = v
		}
	}
	return nil
}

// check holds a patch against the constraints on the very paths that it names.
func (r *run) check(patch map[string]any) error {
	c := jsonschema.NewCompiler()
	schemas := map[string]*jsonschema.Schema{}
	for path, source := range r.constraints {
		url := "mem:///" + strings.ReplaceAll(path, ".", "_")
		if err := c.AddResource(url, any(source)); err != nil {
			return err
		}
		s, err := c.Compile(url)
		if err != nil {
			return err
		}
		schemas[path] = s
	}
	return within("", patch, schemas)
}

func within(prefix string, patch map[string]any, schemas map[string]*jsonschema.Schema) error {
	for k, v := range patch {
		path := strings.TrimPrefix(prefix+"."+k, ".")
		if s := schemas[path]; s != nil {
			if err := s.Validate(v); err != nil {
				return err
			}
		}
		if inner, ok := v.(map[string]any); ok {
			if err := within(path, inner, schemas); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *run) allowed(provider string) bool {
	for _, p := range r.patterns {
		if ok, err := regexp.MatchString(p, provider); err != nil || !ok {
			return false
		}
	}
	return len(r.allow) == 0 || slices.Contains(r.allow, provider)
}

func number(v any) float64 {
	n, _ := v.(json.Number)
	f, _ := n.Float64()
	return f
}

func texts(v any) []string {
	var list []string
	values, _ := v.([]any)
	for _, e := range values {
		if s, ok := e.(string); ok {
			list = append(list, s)
		}
	}
	return list
}

func clone(v map[string]any) map[string]any { return merge(nil, v) }

func merge(target, patch map[string]any) map[string]any {
	merged := maps.Clone(target)
	if merged == nil {
		merged = map[string]any{}
	}
	for k, v := range patch {
		if inner, ok := v.(map[string]any); ok {
			old, _ := merged[k].(map[string]any)
			merged[k] = merge(old, inner)
		} else if v == nil {
			delete(merged, k)
		} else {
			merged[k] = v
		}
	}
	return merged
}
