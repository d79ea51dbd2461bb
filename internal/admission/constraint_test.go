package admission

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/internal/test/gen"
)

// TestKeywordsOnlyTighten is the table of keywords: a constraint in force, a
// newer one on the same path, and what policies see then, or why it cannot be.
func TestKeywordsOnlyTighten(t *testing.T) {
	for _, c := range []struct{ name, old, added, want string }{
		{"the same const", `{"const":4}`, `{"const":4.0}`, `{"const":4}`},
		{"another const", `{"const":4}`, `{"const":5}`, "const is fixed to 4 and cannot become 5"},
		{"an enum that overlaps", `{"enum":[1,2,3]}`, `{"enum":[3,2.0,9]}`, `{"enum":[2,3]}`},
		{"an enum that does not", `{"enum":[1]}`, `{"enum":[2]}`, "enum allows [1], and none of that is in [2]"},
		{"a higher minimum", `{"minimum":1}`, `{"minimum":2}`, `{"minimum":2}`},
		{"a lower minimum", `{"minimum":2}`, `{"minimum":1}`, "minimum is 2 and cannot be loosened to 1"},
		{"a higher exclusive minimum", `{"exclusiveMinimum":1}`, `{"exclusiveMinimum":1.5}`, `{"exclusiveMinimum":1.5}`},
		{"a lower maximum", `{"maximum":4}`, `{"maximum":3}`, `{"maximum":3}`},
		{"a higher maximum", `{"maximum":4}`, `{"maximum":8}`, "maximum is 4 and cannot be loosened to 8"},
		{"a greater length", `{"maxLength":4}`, `{"maxLength":8}`, "maxLength is 4 and cannot be loosened to 8"},
		{"fewer items", `{"minItems":4}`, `{"minItems":3}`, "minItems is 4 and cannot be loosened to 3"},
		{"fewer properties", `{"minProperties":4}`, `{"minProperties":3}`, "minProperties is 4 and cannot be loosened to 3"},
		{"a multiple of a multiple", `{"multipleOf":0.5}`, `{"multipleOf":1.5}`, `{"multipleOf":1.5}`},
		{"no multiple", `{"multipleOf":2}`, `{"multipleOf":3}`, "multipleOf is 2, and 3 is no multiple of it"},
		{"the same pattern", `{"pattern":"a"}`, `{"pattern":"a"}`, `{"pattern":"a"}`},
		{"two patterns", `{"pattern":"a"}`, `{"pattern":"b"}`, `{"pattern":"a","allOf":[{"pattern":"b"}]}`},
		{"three patterns", `{"pattern":"a","allOf":[{"pattern":"b"}]}`, `{"pattern":"c"}`, `{"pattern":"a","allOf":[{"pattern":"b"},{"pattern":"c"}]}`},
		{"another type, which both must hold", `{"type":"string"}`, `{"type":"integer"}`, `{"type":"string","allOf":[{"type":"integer"}]}`},
		{"a keyword that was not there", `{"minimum":1}`, `{"maximum":2}`, `{"minimum":1,"maximum":2}`},
		{
			"words that belong together stay together", `{"minimum":1}`, `{"if":{"minimum":5},"then":{"multipleOf":5},"maximum":9}`,
			`{"minimum":1,"maximum":9,"allOf":[{"if":{"minimum":5},"then":{"multipleOf":5},"maximum":9}]}`,
		},
		{
			"words that look around are left alone", `{"unevaluatedProperties":false}`, `{"properties":{"a":{}}}`,
			`{"allOf":[{"unevaluatedProperties":false},{"properties":{"a":{}}}]}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			view, clashes := tighten(payload(t, c.old), payload(t, c.added))
			if len(clashes) > 0 {
				require.Equal(t, c.want, clashes[0].reason)
				return
			}
			text, err := json.Marshal(view)
			require.NoError(t, err)
			require.JSONEq(t, c.want, string(text))
		})
	}
}

// TestConstraintsHold lists chains of two or three policies on a payload.
func TestConstraintsHold(t *testing.T) {
	guard := func(constraints string) Policy {
		return rego("guard", Global, 1, `{"constraints": `+constraints+`}`)
	}
	patch := func(p string) Policy { return rego("later", User, 1, `{"patch": `+p+`}`) }
	for _, c := range []struct {
		name, payload string
		policies      []Policy
		want          string
	}{
		{"a patch within", `{"cpu":1}`, []Policy{guard(`{"cpu": {"maximum": 4}}`), patch(`{"cpu": 4}`)}, `MODIFIED {"cpu":4}`},
		{"a patch outside", `{"cpu":1}`, []Policy{guard(`{"cpu": {"maximum": 4}}`), patch(`{"cpu": 5}`)}, `conflict of later; cpu: maximum: got 5, want 4 (guard)`},
		{"a request outside is brought back by a policy", `{"cpu":9}`, []Policy{guard(`{"cpu": {"maximum": 4}}`), patch(`{"cpu": 4}`)}, `MODIFIED {"cpu":4}`},
		{"a request outside", `{"cpu":9}`, []Policy{guard(`{"cpu": {"maximum": 4}}`), patch(`{"a": 4}`)}, `rejected by guard: cpu: maximum: got 9, want 4`},
		{
			"a value that a policy made, outside what a later one asks", `{}`,
			[]Policy{rego("early", Global, 1, `{"patch": {"cpu": 9}}`), rego("late", User, 1, `{"constraints": {"cpu": {"maximum": 4}}}`)},
			`conflict of late; cpu: maximum: got 9, want 4 (late)`,
		},
		{"a policy's own patch is bound by its constraint", `{}`, []Policy{rego("p", Global, 1, `{"patch": {"a": 9}, "constraints": {"a": {"maximum": 4}}}`)}, `conflict of p; a: maximum: got 9, want 4 (p)`},
		{"a field that is not there is not bound", `{}`, []Policy{guard(`{"cpu": {"maximum": 4}}`)}, `APPROVED {}`},
		{
			"a dotted path and a pointer are one", `{"a":{"b":1}}`,
			[]Policy{guard(`{"a.b": {"minimum": 1}}`), rego("u", User, 1, `{"constraints": {"/a/b": {"minimum": 0}}}`)},
			`conflict of u; a.b: minimum is 1 and cannot be loosened to 0 (guard)`,
		},
		{"a key with a dot", `{"a":{"b":1},"a.b":7}`, []Policy{guard(`{"/a.b": {"const": 7}}`), patch(`{"a": {"b": 2}}`)}, `MODIFIED {"a":{"b":2},"a.b":7}`},
		{"a key with a dot, patched", `{"a.b":7}`, []Policy{guard(`{"/a.b": {"const": 7}}`), patch(`{"a.b": 8}`)}, `conflict of later; /a.b: value must be 7 (guard)`},
		{"a child of what is held", `{"a":{"b":1}}`, []Policy{guard(`{"a": {"required": ["b"]}}`), patch(`{"a": {"b": null}}`)}, `conflict of later; a: missing property 'b' (guard)`},
		{"an element of a list", `{"a":[1,2]}`, []Policy{guard(`{"/a/1": {"const": 2}}`), patch(`{"a": [2, 1]}`)}, `conflict of later; a.1: value must be 2 (guard)`},
		{"the list cut off", `{"a":[1,2]}`, []Policy{guard(`{"/a/1": {"const": 2}}`), patch(`{"a": [1]}`)}, `conflict of later; a.1: the patch takes the value away (guard)`},
		{"an object in place of the list", `{"a":[1,2]}`, []Policy{guard(`{"/a/1": {"const": 2}}`), patch(`{"a": {"x": 1}}`)}, `conflict of later; a.1: the patch takes the value away (guard)`},
		{"an object like the list", `{"a":[1,2]}`, []Policy{guard(`{"/a/1": {"const": 2}}`), patch(`{"a": {"1": 2}}`)}, `MODIFIED {"a":{"1":2}}`},
		{"the whole payload", `{}`, []Policy{guard(`{"": {"maxProperties": 1}}`), patch(`{"a": 1, "b": 2}`)}, `conflict of later; /: maxProperties: got 2, want 1 (guard)`},
		{"an empty object in place of the parent", `{"a":7}`, []Policy{guard(`{"a": {"type": "integer"}}`), patch(`{"a": {}}`)}, `conflict of later; a: got object, want integer (guard)`},
		{"what the request lacks, beside a patch of something else", `{"x":1}`, []Policy{guard(`{"": {"required": ["owner"]}}`), patch(`{"tag": "t"}`)}, `rejected by guard: /: missing property 'owner'`},
		{
			"what the request lacks, and a policy behind another one adds", `{"x":1}`,
			[]Policy{guard(`{"": {"required": ["owner"]}}`), rego("tag", Tenant, 1, `{"patch": {"tag": "t"}}`), patch(`{"owner": "o"}`)},
			`MODIFIED {"owner":"o","tag":"t","x":1}`,
		},
		{"what the request has too much, beside a patch", `{"a":{"b":1}}`, []Policy{guard(`{"a": {"properties": {"c": {}}, "additionalProperties": false}}`), patch(`{"a": {"c": 1}}`)}, `rejected by guard: a: additional properties 'b' not allowed`},
		{"what is wrong below, left as it was", `{"cpu":9}`, []Policy{guard(`{"": {"properties": {"cpu": {"maximum": 4}}}}`), patch(`{"a": 1}`)}, `rejected by guard: /: /cpu maximum: got 9, want 4`},
		{"what is wrong below, made wrong in another way", `{"cpu":9}`, []Policy{guard(`{"": {"properties": {"cpu": {"maximum": 4}}}}`), patch(`{"cpu": 8}`)}, `conflict of later; /: /cpu maximum: got 8, want 4 (guard)`},
		{
			"more that is wrong than is compared, left as it was", `{"a":[` + strings.Repeat(`1,`, 2000) + `1]}`,
			[]Policy{guard(`{"a": {"items": {"type": "string"}}}`), patch(`{"b": 1}`)},
			`rejected by guard: a: /0 got number, want string; /1 got number, want string; /10 got number, want string; /100 got number, want string; /1000 got number, want string; …`,
		},
		{"what is wrong, made wrong in the same words", `{"a":1}`, []Policy{guard(`{"a": {"enum": [4, 5]}}`), patch(`{"a": 2}`)}, `conflict of later; a: value must be one of 4, 5 (guard)`},
		{"what a policy broke besides", `{"cpu":9}`, []Policy{guard(`{"": {"required": ["owner"], "properties": {"cpu": {"maximum": 9}}}}`), patch(`{"cpu": 10}`)}, `conflict of later; /: /cpu maximum: got 10, want 9; missing property 'owner' (guard)`},
		{
			"all that is broken is told", `{"a":1,"b":1}`,
			[]Policy{guard(`{"b": {"const": 1}, "a": {"const": 1}}`), patch(`{"b": 2, "a": 2}`)},
			`conflict of later; a: value must be 1 (guard); b: value must be 1 (guard)`,
		},
		{"immutable holds what the request brought", `{"a":1}`, []Policy{guard(`{"a": {"mode": "immutable"}}`), patch(`{"a": 2}`)}, `conflict of later; a: value must be 1 (guard)`},
		{"immutable holds that there is nothing", `{}`, []Policy{guard(`{"a": {"mode": "immutable"}}`), patch(`{"a": 2}`)}, `conflict of later; a: 'not' failed (guard)`},
		{"immutable beside a constant that the request has not", `{"a":"us"}`, []Policy{guard(`{"a": {"mode": "immutable", "const": "eu"}}`)}, `rejected by guard: a: value must be 'eu'`},
		{"immutable beside a constant, patched to that", `{"a":"us"}`, []Policy{guard(`{"a": {"mode": "immutable", "const": "eu"}}`), patch(`{"a": "eu"}`)}, `conflict of later; a: value must be 'us' (guard)`},
		{"immutable beside the constant that there is", `{"a":"eu"}`, []Policy{guard(`{"a": {"mode": "immutable", "const": "eu"}}`)}, `APPROVED {"a":"eu"}`},
		{"immutable that there is nothing, beside what it may not be", `{}`, []Policy{guard(`{"a": {"mode": "immutable", "not": {"const": 1}}}`), patch(`{"a": 2}`)}, `conflict of later; a: 'not' failed (guard)`},
		{"immutable holds that the patch left nothing", `{"a":1}`, []Policy{rego("guard", Global, 1, `{"patch": {"a": null}, "constraints": {"a": {"mode": "immutable"}}}`)}, `MODIFIED {}`},
		{"what was taken away for good stays away", `{"a":{"b":1}}`, []Policy{rego("guard", Global, 1, `{"patch": {"a": null}, "constraints": {"a.b": {"mode": "immutable"}}}`), patch(`{"a": {"b": 1}}`)}, `conflict of later; a.b: 'not' failed (guard)`},
		{"what another one holds is not taken away for good", `{"a":1}`, []Policy{guard(`{"a": {"const": 1}}`), rego("u", User, 1, `{"patch": {"a": null}, "constraints": {"a": {"mode": "immutable"}}}`)}, `conflict of u; a: the patch takes the value away (guard)`},
		{"immutable twice is once", `{"a":1}`, []Policy{guard(`{"a": {"mode": "immutable"}}`), rego("u", User, 1, `{"constraints": {"a": {"mode": "immutable"}}}`)}, `APPROVED {"a":1}`},
		{"a format is checked", `{"a":"x"}`, []Policy{guard(`{"a": {"format": "ipv4"}}`)}, `rejected by guard: a: 'x' is not valid ipv4: expected four decimals`},
		{"a definition of its own", `{"a":[1,"x"]}`, []Policy{guard(`{"a": {"$defs": {"n": {"type": "number"}}, "items": {"$ref": "#/$defs/n"}}}`)}, `rejected by guard: a: /1 got string, want number`},
		{
			"blame goes to whoever set it, not to the first", `{"a":3}`,
			[]Policy{guard(`{"a": {"maximum": 9}}`), rego("t", Tenant, 1, `{"constraints": {"a": {"maximum": 4}}}`), patch(`{"a": 5}`)},
			`conflict of later; a: maximum: got 5, want 4 (t)`,
		},
		{
			"loosening is held against who tightened last", `{}`,
			[]Policy{guard(`{"a": {"maximum": 9}}`), rego("t", Tenant, 1, `{"constraints": {"a": {"maximum": 4}}}`), rego("u", User, 1, `{"constraints": {"a": {"maximum": 6}}}`)},
			`conflict of u; a: maximum is 4 and cannot be loosened to 6 (t)`,
		},
		{
			"a schema that would take all day", `{"a":"` + string(make6k()) + `"}`,
			[]Policy{guard(`{"a": {"allOf": [{"pattern": "(x+x+)+y{900}"} | some i in numbers.range(1, 8)]}}`)},
			`failure of guard: invalid_constraint constraints: a: checking this schema of 7281 parts against a payload of 6010 bytes takes too long`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, evaluate(t, c.payload, c.policies...))
		})
	}
}

func make6k() []byte { return slices.Repeat([]byte("x"), 6000) }

func TestProvidersAreHeld(t *testing.T) {
	allow := func(id string, l Level, names string) Policy {
		return rego(id, l, 1, `{"service_provider": {"constraints": {"allow_list": `+names+`}}}`)
	}
	choose := func(id string, l Level, name string) Policy {
		return rego(id, l, 2, `{"service_provider": {"value": "`+name+`"}}`)
	}
	match := rego("m", Tenant, 3, `{"service_provider": {"constraints": {"patterns": ["^eu-"]}}}`)
	for _, c := range []struct {
		name     string
		policies []Policy
		want     string
	}{
		{"none is chosen", []Policy{allow("a", Global, `["x"]`)}, `APPROVED {}`},
		{"the last choice counts", []Policy{choose("a", Global, "x"), choose("b", User, "y")}, `APPROVED {} on y`},
		{"outside the list", []Policy{allow("a", Global, `["x"]`), choose("b", User, "y")}, `conflict of b; service_provider: "y" is not in the allow_list ["x"] (a)`},
		{"lists that leave nothing", []Policy{allow("a", Global, `["x"]`), allow("b", User, `["y"]`)}, `conflict of b; service_provider: allow_list is ["x"], and nothing of it is in ["y"] (a)`},
		{"a set is a list", []Policy{allow("a", Global, `{"y", "x"}`), choose("b", User, "y")}, `APPROVED {} on y`},
		{"outside the pattern", []Policy{match, choose("b", User, "us-1")}, `conflict of b; service_provider: "us-1" does not match the pattern "^eu-" (m)`},
		{"excluded later", []Policy{choose("a", Global, "us-1"), match}, `conflict of m; service_provider: "us-1" does not match the pattern "^eu-" (m)`},
		{"excluded later, and replaced", []Policy{choose("a", Global, "us-1"), match, choose("b", User, "eu-1")}, `APPROVED {} on eu-1`},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, evaluate(t, `{}`, c.policies...)) })
	}
}

func TestEachDialectHasItsInput(t *testing.T) {
	first := rego("first", Global, 1, `{"patch": {"a": 2}, "constraints": {"a": {"minimum": 1}}, "service_provider": {"value": "x", "constraints": {"allow_list": ["x", "y"], "patterns": ["."]}}}`)
	dump := rego("dump", User, 2, `{"patch": {"seen": input}}`)
	client := Policy{ID: "client", Level: User, Priority: 1, Enabled: true, Rego: "package anything\n\nmain := {\"patch\": {\"client\": input}}"}
	r, err := patient().Evaluate(t.Context(), compiled(t, first, dump), Request{Payload: payload(t, `{"a":1}`), UserID: "u", TenantID: "t"}, Options{})
	require.NoError(t, err)
	text, _ := json.Marshal(r.Payload["seen"])
	require.JSONEq(t, `{"original_request_payload":{"a":1},"current_request_payload":{"a":2},"constraints":{"a":{"minimum":1}},"user_id":"u","tenant_id":"t",
		"service_provider":{"value":"x","constraints":{"allow_list":["x","y"],"patterns":["."]}}}`, string(text))
	r, err = patient().Evaluate(t.Context(), compiled(t, first, client), Request{Payload: payload(t, `{"a":1}`)}, Options{})
	require.NoError(t, err)
	text, _ = json.Marshal(r.Payload["client"])
	require.JSONEq(t, `{"spec":{"a":2},"provider":"x","constraints":{"a":{"minimum":1}},"service_provider_constraints":{"allow_list":["x","y"],"patterns":["."]}}`, string(text))
	r, err = patient().Evaluate(t.Context(), compiled(t, client), Request{Payload: payload(t, `{"a":1}`)}, Options{})
	require.NoError(t, err)
	text, _ = json.Marshal(r.Payload["client"])
	require.JSONEq(t, `{"spec":{"a":1},"provider":""}`, string(text))
}

func TestTheClientsDialectSaysLess(t *testing.T) {
	main := func(id, decision string) Policy {
		return Policy{ID: id, Name: id, Level: User, Enabled: true, Rego: "package test\n\nmain := " + decision}
	}
	for decision, want := range map[string]string{
		`null`: `APPROVED {}`,
		`{"rejected": true, "rejection_reason": "no"}`: `rejected by p: no`,
		`{"rejected": "yes"}`:                          `failure of p: invalid_decision rejected: is a string, not true or false`,
		`{"reject": true}`:                             `failure of p: invalid_decision reject: is no field of a decision; there are rejected, rejection_reason, patch, constraints, selected_provider, service_provider_constraints`,
		`{"selected_provider": "x", "service_provider_constraints": {"allow_list": []}}`:   `APPROVED {} on x`,
		`{"selected_provider": "x", "service_provider_constraints": {"patterns": ["^y"]}}`: `conflict of p; service_provider: "x" does not match the pattern "^y" (p)`,
		`{"service_provider_constraints": {"allow_list": [7]}}`:                            `failure of p: invalid_decision service_provider_constraints.allow_list[0]: is a number, not a string`,
		`{"selected_provider": ""}`: `APPROVED {}`,
	} {
		require.Equal(t, want, evaluate(t, `{}`, main("p", decision)), decision)
	}
	none := Policy{ID: "none", Level: User, Enabled: true, Rego: "package test\n\nallow = true"}
	require.Equal(t, `APPROVED {}`, evaluate(t, `{}`, none, main("same-package", `{}`)))
}

// TestWhatPassesIsOfEverySchema lets random policies constrain and patch, and
// holds what passes against every schema that was ever set, one by one, with
// nothing of the engine's bookkeeping.
func TestWhatPassesIsOfEverySchema(t *testing.T) {
	gen.Unraced()
	schemas := []string{
		`{"maximum": 5}`, `{"maximum": 3}`, `{"minimum": 2}`, `{"const": 3}`, `{"enum": [1, 2, 3]}`, `{"enum": [3, 4, "x"]}`, `{"type": "integer"}`, `{"type": "string"}`,
		`{"type": "object"}`, `{"required": ["b"]}`, `{"multipleOf": 2}`, `{"pattern": "x"}`, `{"pattern": "^x"}`, `{"not": {"type": "object"}}`, `{"if": {"type": "object"}, "then": {"required": ["b"]}}`,
	}
	paths := []string{"a", "a.b", "/a/b", "c", "/a.b"}
	patches := []string{`{"a": 3}`, `{"a": null}`, `{"a": {"b": 3}}`, `{"a": {"b": null}}`, `{"a": {"b": "x"}}`, `{"c": 2}`, `{"c": "x"}`, `{"a.b": 4}`, `{"a": {}}`, `{}`}
	cache := map[string]*Compiled{}
	e := patient()
	passed := 0
	rapid.Check(t, func(t *rapid.T) {
		type demand struct{ path, schema string }
		var demands []demand
		var list []*Compiled
		for i := range rapid.IntRange(1, 4).Draw(t, "policies") {
			d := demand{rapid.SampledFrom(paths).Draw(t, "path"), rapid.SampledFrom(schemas).Draw(t, "schema")}
			demands = append(demands, d)
			result := fmt.Sprintf(`{"constraints": {"%s": %s}, "patch": %s}`, d.path, d.schema, rapid.SampledFrom(patches).Draw(t, "patch"))
			key := fmt.Sprint(i, result)
			if cache[key] == nil {
				c, err := Compile(t.Context(), rego(itoa(i), Global, i, result))
				require.NoError(t, err)
				cache[key] = c
			}
			list = append(list, cache[key])
		}
		in, err := ParsePayload([]byte(rapid.SampledFrom([]string{`{}`, `{"a":3}`, `{"a":{"b":3},"c":2}`, `{"a":{"b":"x"},"a.b":3}`, `{"a":9,"c":"y"}`}).Draw(t, "payload")))
		require.NoError(t, err)
		r, err := e.Evaluate(t.Context(), NewSnapshot(0, list...), Request{Payload: in}, Options{})
		var failed *PolicyError
		require.False(t, errors.As(err, &failed), "%v", err)
		if err != nil {
			return
		}
		passed++
		for _, d := range demands {
			where, err := parsePath(d.path)
			require.NoError(t, err)
			v, ok := where.in(r.Payload)
			if !ok {
				continue
			}
			c := jsonschema.NewCompiler()
			var source any
			require.NoError(t, json.Unmarshal([]byte(d.schema), &source))
			require.NoError(t, c.AddResource("x:y", source))
			require.NoError(t, c.MustCompile("x:y").Validate(v), "%v does not hold %v", d, r.Payload)
		}
	})
	require.Positive(t, passed, "no chain passed at all")
}

// A fault of each element of a list, which quotes all of a long constant: who wrote both took
// the memory of the plane, and the policy did not stop.
func TestManyFaultsAreNotWrittenOut(t *testing.T) {
	s, err := compileSchema(map[string]any{"items": map[string]any{"const": strings.Repeat("x", 10_000)}}, 64)
	require.NoError(t, err)
	list := make([]any, 10_000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	h := held{path: path{"a"}, list: []constraint{{schema: s}}}
	violations, err := h.broken(list, len(list))
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(50<<20))
	require.Len(t, violations, 1)
	require.True(t, strings.HasPrefix(violations[0].Reason, "/0 value must be 'xxx"), violations[0].Reason)
}

func TestTheFirstFaultsAreShownInOrder(t *testing.T) {
	s, err := compileSchema(payload(t, `{"items": {"type": "string"}, "maxItems": 3, "not": {"minItems": 7}}`), 64)
	require.NoError(t, err)
	found, err := s.broken([]any{json.Number("1"), json.Number("2"), json.Number("3"), json.Number("4"), "x", json.Number("6"), json.Number("7")}, 30)
	require.NoError(t, err)
	require.Equal(t, "'not' failed; /0 got number, want string; /1 got number, want string; /2 got number, want string; /3 got number, want string; …", found.reasons())
}
