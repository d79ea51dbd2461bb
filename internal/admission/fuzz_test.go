package admission

import (
	"encoding/json"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
)

func FuzzPath(f *testing.F) {
	for _, s := range []string{"", "a", "a.b", "/a/b", "/a~1b/~0", "/", "a..b", "/a~2", "a/b.c", "/a.b", "~", ".", "//"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := parsePath(s)
		if err != nil {
			return
		}
		for _, written := range []string{p.pointer(), p.String()} {
			again, err := parsePath(written)
			if err != nil || again.pointer() != p.pointer() {
				t.Fatalf("%q is %q, which reads as %q: %v", s, written, again, err)
			}
		}
	})
}

// FuzzDecision gives the engine any answer a policy may give: whatever it is,
// the engine says so and goes on.
func FuzzDecision(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"reject": true, "reason": "x"}`, `{"rejected": true}`, `null`, `[]`, `{"patch": {"a": null, "b": {"c": 1}}}`,
		`{"constraints": {"a": {"mode": "immutable"}, "/b": {"const": 1e99}}}`, `{"service_provider": {"value": "x", "constraints": {"allow_list": ["x"], "patterns": ["("]}}}`,
		`{"selected_provider": "x", "service_provider_constraints": {"allow_list": []}}`, `{"constraints": {"a": {"$ref": "#/a"}}}`, `{"constraints": {"": {"not": {}}}}`,
		`{"constraints": {"a": {"allOf": 7, "enum": {}, "pattern": 7, "$defs": [], "$ref": 7}}}`,
	} {
		f.Add(s)
	}
	e := patient()
	f.Fuzz(func(t *testing.T, text string) {
		var v any
		if json.Unmarshal([]byte(text), &v) != nil {
			return
		}
		answer, err := ast.InterfaceToValue(v)
		if err != nil {
			return
		}
		m := meter{e.limits.DecisionBytes, e.limits.Depth}
		converted, err := m.fromRego(answer)
		object, ok := converted.(map[string]any)
		if err != nil || !ok {
			return
		}
		for _, d := range []*dialect{specified, inherited} {
			dec, err := d.parse(object)
			if err != nil {
				continue
			}
			p := &Compiled{policy: Policy{ID: "p", Level: Global}, code: known(judgement{dialect: d})}
			c := &chain{search: newSearch(), e: e, request: &Request{Payload: map[string]any{"a": json.Number("1")}}, policies: []*Compiled{p}, snapshot: NewSnapshot(0, p)}
			c.payload = c.request.Payload
			c.input.begin(c.request)
			if err := c.decide(p, dec, nil); err == nil {
				if err = c.final(&watch{}); err == nil {
					_ = c.input.of(c, d)
					_ = c.result(nil)
				}
			}
		}
	})
}
