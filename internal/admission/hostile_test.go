package admission

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/gen"
)

// TestRegoThatIsRefused lists code that never becomes a policy, with the
// position that its author is told.
func TestRegoThatIsRefused(t *testing.T) {
	for _, c := range []struct{ name, code, want string }{
		{"nothing", "", "rego_parse_error: empty module"},
		{"a remark alone", "# later", "rego_parse_error: empty module"},
		{"no package", "main := {}", "1:1: rego_parse_error: package expected"},
		{"v0 syntax", "package a\n\nmain = x { x := 1 }", "3:1: rego_parse_error: `if` keyword is required before rule body"},
		{"a type error", "package a\n\nmain := {\"x\": 1 + \"a\"}", "3:15: rego_type_error: plus: invalid argument(s)"},
		{"a variable from nowhere", "package a\n\nmain := x", "3:9: rego_unsafe_var_error: var x is unsafe"},
		{"recursion", "package a\n\nmain := x\n\nx := main", "3:1: rego_recursion_error: rule data.a.main is recursive"},
		{"http.send", "package a\n\nmain := http.send({\"method\": \"get\", \"url\": \"http://localhost\"})", "3:9: rego_type_error: undefined function http.send"},
		{"the clock", "package a\n\nmain := {\"patch\": {\"t\": time.now_ns()}}", "undefined function time.now_ns"},
		{"the environment", "package a\n\nmain := opa.runtime()", "undefined function opa.runtime"},
		{"randomness", "package a\n\nmain := {\"x\": rand.intn(\"a\", 9)}", "undefined function rand.intn"},
		{"bits.lsh", "package a\n\nmain := bits.lsh(1, 2000000000)", "undefined function bits.lsh"},
		{"another policy's data", "package a\n\nmain := data.guard.main", "3:9: forbidden: data.guard.main is outside the policy's own data.a"},
		{"another policy's data, imported", "package a\n\nimport data.guard\n\nmain := guard.main", "3:8: forbidden: data.guard is outside"},
		{"all data", "package a\n\nmain := {x | walk(data, [_, x])}", "forbidden: data is outside"},
		{"all data, by name", "package a\n\nmain := data[input.x]", "forbidden: data[input.x] is outside"},
		{"a number without end", "package a\n\nmain := 1e100000000", "rego_parse_error"},
		{"brackets without end", "package a\n\nmain := " + strings.Repeat("[", 5000), "too_large: brackets stand more than 200 deep"},
		{"too much code", "package a\n#" + strings.Repeat("x", MaxRegoBytes), "too_large: the code has 65547 bytes, a policy at most 65536"},
		{"a package of many parts", "package a" + strings.Repeat(".b", 100) + "\n\nmain := {}", "1:1: too_large: the package has a name of 101 parts, more than 100"},
		{"every fault at once", "package a\n\nx := y\n\nz := w", "3:6: rego_unsafe_var_error: var y is unsafe\n5:6: rego_unsafe_var_error: var w is unsafe"},
		{"two defaults", "package a\n\ndefault main := 1\n\ndefault main := 2", "multiple default rules data.a.main found"},
		{"two defaults at once", "package a\n\nmain := {\"a\": 1}\n\nmain(x) := x", "conflicting rules data.a.main found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Compile(t.Context(), Policy{ID: "p", Level: Global, Rego: c.code})
			var faults *CompileError
			require.ErrorAs(t, err, &faults)
			require.NotEmpty(t, faults.Faults)
			require.Contains(t, err.Error(), c.want)
		})
	}
}

// The types of this code have more parts than can be counted, and the compiler holds them
// against each other, or writes them out, part by part.
func TestCodeThatDoublesItsTypesIsRefused(t *testing.T) {
	chain := func(name, first, next string) string {
		var b strings.Builder
		fmt.Fprintf(&b, "%s0%s\n", name, first)
		for i := range 40 {
			b.WriteString(strings.NewReplacer("$", name+itoa(i+1), "@", name+itoa(i)).Replace(next) + "\n")
		}
		return b.String()
	}
	list := func(name string) string { return chain(name, " := [input.u, 1]", "$ := [@, @]") }
	for _, c := range []struct{ name, code string }{
		{"held against each other", "main if x40 == y40\n" + list("x") + list("y")},
		{"of one rule", "main := x40 if input.a\n\nmain := y40 if input.b\n" + list("x") + list("y")},
		{"of one rule and its else", "main := x40 if input.a\nelse := y40 if input.b\n" + list("x") + list("y")},
		{"in one list", "main if {\n\tsome v in [x40, y40]\n\tv\n}\n" + list("x") + list("y")},
		{"of members", "main.a := x40\n\nmain.b := y40\n" + list("x") + list("y")},
		{"of objects", "main if x40 == y40\n" + chain("x", " := 1", `$ := {"a": @, "b": @}`) + chain("y", " := 2", `$ := {"a": @, "b": @}`)},
		{"of functions", "main := x40(1) == 3\n" + chain("x", "(x) := [x, 1]", "$(x) := [@(x), @(x)]")},
		{"of variables", "main if {\n" + list("x") + "x40 == 3\n}\n"},
		{"of comprehensions", "main := x40\n" + chain("x", " := [1]", "$ := [[@, @] | some _ in [1]]")},
		{"of what is taken apart", "main if {\n" + chain("x", " := [input.u]", "[$, _] := [[@, @], 1]") + "x40 == 3\n}\n"},
		{"in a fault", "main := x40 + 1\n" + list("x")},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Compile(t.Context(), Policy{ID: "p", Level: Global, Rego: "package a\n\n" + c.code})
			require.ErrorContains(t, err, "too_large: what data.a.")
		})
	}
}

func TestAFaultShowsNoLargeTypes(t *testing.T) {
	_, err := Compile(t.Context(), Policy{ID: "p", Level: Global, Rego: "package a\n\nmain := x + \"\"\n\nx := [" + strings.Repeat("1, ", 10_000) + "1]"})
	require.ErrorContains(t, err, "plus: invalid argument(s); the types are too large to be shown")
	_, err = Compile(t.Context(), Policy{ID: "p", Level: Global, Rego: "package a\n\nmain := [1, 2] + 3"})
	require.ErrorContains(t, err, "plus: invalid argument(s); have: (array<number, number>")
}

// Large tables and rules that use each other are what policies are made of.
func TestLargeCodeCompiles(t *testing.T) {
	var b strings.Builder
	b.WriteString("package a\n\ntable := {\n")
	for i := range 1000 {
		fmt.Fprintf(&b, "\t\"k%d\": {\"zone\": \"z%d\", \"size\": %d},\n", i, i, i)
	}
	b.WriteString("}\n\nok0 if input.x\n")
	for i := range 200 {
		fmt.Fprintf(&b, "ok%d if {\n\tok%d\n\trow := table[input.k]\n\t[row.zone, row.size, f(row)] != [\"\", %d, 1]\n}\n", i+1, i, i)
	}
	b.WriteString("f(row) := {\"row\": row, \"all\": [r | some r in table]}\n\nmain := {\"reject\": ok200}\n")
	_, err := Compile(t.Context(), Policy{ID: "p", Level: Global, Rego: b.String()})
	require.NoError(t, err)
}

// All rows of a table have one type, so that many rules may each answer with a row.
func TestManyRulesAnswerWithRowsOfOneTable(t *testing.T) {
	var rows, texts strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&rows, "{\"name\": \"n%d\", \"port\": %d},\n", i, i)
		fmt.Fprintf(&texts, "\"10.0.%d.0/24\",\n", i)
	}
	for _, c := range []struct{ name, table, of string }{
		{"a list", "table := [" + rows.String() + "]", "table"},
		{"a set", "table := {" + rows.String() + "}", "table"},
		{"a set of texts", "table := {" + texts.String() + "}", "table"},
		{"a list in an object", `table := {"rows": [` + rows.String() + "]}", "table.rows"},
		{"a list of lists", "table := [[" + rows.String() + "]]", "table[_]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b strings.Builder
			b.WriteString("package a\n\n" + c.table + "\n\nmain := {\"reject\": true, \"reason\": \"no\"} if count(found) > 0\n\n")
			for i := range 120 {
				fmt.Fprintf(&b, "found contains x if {\n\tsome x in %s\n\tx == input.f%d\n}\n", c.of, i)
			}
			_, err := Compile(t.Context(), Policy{ID: "p", Level: Global, Rego: b.String()})
			require.NoError(t, err)
		})
	}
}

// TestPoliciesThatFailClosed lists policies that compile and then do something
// that no request may profit from.
func TestPoliciesThatFailClosed(t *testing.T) {
	gen.Unraced()
	for _, c := range []struct{ name, result, want string }{
		{"a decision that is a list", `[1]`, "invalid_decision result: is an array, not an object"},
		{"a decision that is a word", `"no"`, "invalid_decision result: is a string, not an object"},
		{"a decision that is null", `null`, "invalid_decision result: is null, not an object"},
		{"a reject that is a word", `{"reject": "yes"}`, "invalid_decision reject: is a string, not true or false"},
		{"a reject that is null", `{"reject": null}`, "invalid_decision reject: is null, not true or false"},
		{"a misspelt field", `{"rejected": true}`, "invalid_decision rejected: is no field of a decision; there are reject, reason, patch, constraints, service_provider"},
		{"a reason that is a number", `{"reject": true, "reason": 7}`, "invalid_decision reason: is a number, not a string"},
		{"a patch that is a list", `{"patch": ["a"]}`, "invalid_decision patch: is an array, not an object"},
		{"a patch with a key that is no text", `{"patch": {1: 2}}`, "invalid_decision patch: has the key 1, which is no string"},
		{"constraints that are a list", `{"constraints": []}`, "invalid_decision constraints: is an array, not an object"},
		{"a provider that is a word", `{"service_provider": "aws"}`, "invalid_decision service_provider: is a string, not an object"},
		{"a provider that is a number", `{"service_provider": {"value": 7}}`, "invalid_decision service_provider.value: is a number, not a string"},
		{"an allow list with a number", `{"service_provider": {"constraints": {"allow_list": ["a", 7]}}}`, "invalid_decision service_provider.constraints.allow_list[1]: is a number, not a string"},
		{"an allow list of nobody", `{"service_provider": {"constraints": {"allow_list": []}}}`, "invalid_decision service_provider.constraints.allow_list: is empty"},
		{"a provider pattern that is none", `{"service_provider": {"constraints": {"patterns": ["("]}}}`, "invalid_constraint service_provider.constraints: patterns[0]: missing closing )"},
		{"a misspelt provider field", `{"service_provider": {"constraint": {}}}`, "invalid_decision service_provider.constraint: is no field"},
		{"a constraint that is no schema", `{"constraints": {"a": 7}}`, "invalid_constraint constraints: a: is a number, not a schema"},
		{"a constraint of a wrong type", `{"constraints": {"a": {"maximum": "7"}}}`, "invalid_constraint constraints: a: /maximum got string, want number"},
		{"an unknown keyword", `{"constraints": {"a": {"maxium": 7}}}`, "invalid_constraint constraints: a at /maxium: is no keyword"},
		{"an unknown keyword within", `{"constraints": {"a": {"properties": {"b": {"maxium": 7}}}}}`, "invalid_constraint constraints: a at /properties/b/maxium: is no keyword"},
		{"an unknown mode", `{"constraints": {"a": {"mode": "readonly"}}}`, `invalid_constraint constraints: a: mode is "readonly"; the only mode is "immutable"`},
		{"an unknown format", `{"constraints": {"a": {"format": "cidr"}}}`, `invalid_constraint constraints: a at /format: "cidr" is no format that is checked`},
		{"another draft", `{"constraints": {"a": {"$schema": "http://json-schema.org/draft-07/schema#"}}}`, "invalid_constraint constraints: a at /$schema: is http"},
		{"a schema from a file", `{"constraints": {"a": {"$ref": "file:///etc/passwd"}}}`, "invalid_constraint constraints: a at /$ref: \"file:///etc/passwd\" is not of the form"},
		{"a schema within itself", `{"constraints": {"a": {"$ref": "#/properties/b", "properties": {"b": {"$ref": "#/properties/b"}}}}}`, "invalid_constraint constraints: a at /$ref/$ref: #/properties/b refers to itself"},
		{"a pattern that is none", `{"constraints": {"a": {"pattern": "("}}}`, "invalid_constraint constraints: a at /pattern: error parsing regexp"},
		{"a path with a hole", `{"constraints": {"a..b": {}}}`, `invalid_constraint constraints: "a..b" has an empty part`},
		{"a pointer that is none", `{"constraints": {"/a~2": {}}}`, `invalid_constraint constraints: "/a~2": in a JSON pointer a ~ is written ~0`},
		{"a patch of a thousand keys and one", `{"patch": {sprintf("k%d", [i]): i | some i in numbers.range(0, 1000)}}`, "too_large patch: has 1001 keys, more than 1000"},
		{"too many constraints", `{"constraints": {sprintf("k%d", [i]): {} | some i in numbers.range(0, 256)}}`, "too_large constraints: are 257, more than 256"},
		{"a decision of a megabyte", `{"reason": concat("", [x | some i in numbers.range(1, 500); x := "` + strings.Repeat("0123456789", 100) + `"])}`, "too_large reason: is too large"},
		{"a function that fails", `{"patch": {"n": to_number(input.user_id)}}`, "eval_builtin_error : to_number"},
		{"a division by zero", `{"patch": {"n": 1 / count(input.user_id)}}`, "eval_builtin_error : div: divide by zero"},
		{"two answers", "{\"reject\": false}\n\nresult := {\"reject\": true}", "eval_conflict_error : rule data.dcm.policy.x.result produced conflicting values"},
		{"an enormous number", `{"patch": {"n": json.unmarshal("1e1000000000")}}`, "eval_builtin_error : is a number of more than"},
		{"an enormous product", `{"patch": {"n": x}} if {a := 1000000000 * 1000000000; b := a * a * a * a * a; c := b * b * b * b * b; x := c * c * c}`, "eval_builtin_error : the number"},
		{"a 10 GB string from a format", `{"reason": sprintf(concat("", [x | some i in numbers.range(1, 10000); x := sprintf("%%1000000d%d", [i])]), [1])}`, "eval_builtin_error"},
		{"a 10 GB string from one width", `{"reason": sprintf("%10000000000d", [1])}`, "eval_builtin_error : a string of more than 1048576 bytes"},
		{"a 10 GB string by replacing", `{"reason": replace(a, "0", a)} if {a := concat("", [x | some i in numbers.range(1, 1000); x := "` + strings.Repeat("0", 500) + `"])}`, "eval_builtin_error : a string of more than"},
		{"a list without end", `{"patch": {"x": numbers.range(0, 10000000000)}}`, "eval_builtin_error : a range of more than 100000 numbers"},
		{"a list from before all integers", `{"patch": {"x": numbers.range(-10000000000000000000, 5)}}`, "eval_builtin_error : a range of more than 100000 numbers"},
		{"a list to a fraction", `{"patch": {"x": numbers.range(1, 1.5)}}`, "eval_builtin_error : a range of more than"},
		{"a text of letters for one", `{"reason": replace("", a, "")} if {a := ` + long("a", 400) + `}`, "eval_builtin_error : looking for so long a text in so long a text"},
		{"texts for others", `{"reason": strings.replace_n({a: "", concat("", [a, "b"]): ""}, a)} if {a := ` + long("a", 400) + `}`, "eval_builtin_error : looking for so long"},
		{"a long text in a long one", `{"patch": {"x": indexof(concat("", [a, "é"]), concat("", [a, "b"]))}} if {a := ` + long("a", 400) + `}`, "eval_builtin_error : looking for so long"},
		{"all places of a long text", `{"patch": {"x": indexof_n(a, substring(a, 0, 100000))}} if {a := ` + long("a", 400) + `}`, "eval_builtin_error : looking for so long"},
		{"all places of a letter", `{"patch": {"x": indexof_n(a, "a")}} if {a := ` + long("a", 400) + `}`, "eval_builtin_error : more than 100000 matches in a text"},
		{"all letters of a text", `{"patch": {"x": split(a, "")}} if {a := ` + long("a", 400) + `}`, "eval_builtin_error : more than 100000 matches in a text"},
		{"all letters by an expression", `{"patch": {"x": regex.split("", a)}} if {a := ` + long("a", 400) + `}`, "eval_builtin_error : more than 100000 matches in a text"},
		{"an end of many letters", `{"patch": {"x": trim(a, concat("", ["é", a]))}} if {a := ` + long("a", 400) + `}`, "eval_builtin_error : looking for so long"},
		{"a patch of many steps", `{"patch": {"x": json.patch(numbers.range(1, 50000), [{"op": "add", "path": "/0", "value": 1} | some i in numbers.range(1, 500)])}}`, "eval_builtin_error : comparing so many elements with so many"},
		{"a part of a long list", `{"patch": {"x": object.subset([1 | some i in numbers.range(1, 50000)], [1 | some i in numbers.range(1, 5000)])}}`, "eval_builtin_error : comparing so many"},
		{"networks in networks", `{"patch": {"x": net.cidr_contains_matches(n, n)}} if {n := ["10.0.0.0/8" | some i in numbers.range(1, 600)]}`, "eval_builtin_error : comparing so many"},
		{"JSON of one text many times", `{"reason": json.marshal(l)} if {l := ` + many + `}`, "eval_builtin_error : a value with texts of more than 1048576 bytes"},
		{"JSON on lines of one text many times", `{"reason": json.marshal_with_options(l, {"pretty": true})} if {l := ` + many + `}`, "eval_builtin_error : a value with texts of more than"},
		{"YAML of one text many times", `{"reason": yaml.marshal(l)} if {l := ` + many + `}`, "eval_builtin_error : a value with texts of more than"},
		{"a query of one text many times", `{"reason": urlquery.encode_object({"a": l})} if {l := ` + many + `}`, "eval_builtin_error : a value with texts of more than"},
		{"a template of one text many times", `{"reason": $"{l}"} if {l := ` + many + `}`, "eval_builtin_error : a value with texts of more than"},
		{"ends of one text many times", `{"reject": strings.any_suffix_match(l, ["b"])} if {l := ` + many + `}`, "eval_builtin_error : a value with texts of more than"},
		{"beginnings of one text many times", `{"reject": strings.any_prefix_match("b", l)} if {l := ` + many + `}`, "eval_builtin_error : a value with texts of more than"},
		{"all letters of a text but a million", `{"patch": {"x": strings.split_n(a, "", 1000000)}} if {a := ` + long("a", 400) + `}`, "eval_builtin_error : more than 100000 matches in a text"},
		{"a list that doubles", `{"patch": {"x": count(e)}} if {a := numbers.range(1, 100000); b := array.concat(a, a); c := array.concat(b, b); d := array.concat(c, c); e := array.concat(d, d)}`, "eval_builtin_error : a value of more than 1000000 parts"},
		{"YAML of many keys", `{"patch": {"x": yaml.unmarshal(concat("", [x | some i in numbers.range(1, 60000); x := sprintf("k%d: 1\n", [i])]))}}`, "eval_builtin_error : YAML of more than 10000 keys and elements"},
		{"YAML of many short keys", `{"patch": {"x": yaml.is_valid(concat(",", ["a" | some i in numbers.range(1, 60000)]))}}`, "eval_builtin_error : YAML of more than"},
		{"a factorial", `{"patch": {"x": product(numbers.range(1, 20000))}}`, "eval_builtin_error : a product of so many numbers"},
		{"JSON of long lines", `{"reason": json.marshal_with_options(numbers.range(1, 1000), {"indent": ` + long("a", 10) + `, "pretty": true})}`, "eval_builtin_error : a string of more than"},
		{"a network without end", `{"patch": {"x": net.cidr_expand("10.0.0.0/4")}}`, "eval_builtin_error : a network of more than"},
		{"a monstrous expression", `{"reject": regex.match(concat("", [x | some i in numbers.range(1, 100); x := sprintf("(%d|y{900})", [i])]), "a")}`, "eval_builtin_error : the pattern has"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Contains(t, evaluate(t, `{}`, rego("p", Global, 1, c.result)), "failure of p: "+c.want)
		})
	}
}

// many is Rego for a list that has two megabytes of text, and holds little.
var many = `[a | some i in numbers.range(1, 10); a := ` + long("a", 400) + `]`

// TestAPayloadIsAsLargeAsItIs patches 200 KB eight times: at one place, and at eight.
func TestAPayloadIsAsLargeAsItIs(t *testing.T) {
	patches := func(key string) (list []Policy) {
		for i := range 8 {
			list = append(list, rego("p"+itoa(i), Global, i+1, strings.ReplaceAll(`{"patch": {"KEY": a}} if {a := `+long("a", 400)+`}`, "KEY", strings.ReplaceAll(key, "#", itoa(i)))))
		}
		return list
	}
	require.Contains(t, evaluate(t, `{}`, patches("a")...), "MODIFIED {")
	require.Contains(t, evaluate(t, `{}`, patches("a#")...), "failure of p5: too_large patch: makes the payload larger than 1048576 bytes")
}

// long is Rego for a text of that many times 500 letters.
func long(letter string, times int) string {
	return fmt.Sprintf(`concat("", ["%s" | some i in numbers.range(1, %d)])`, strings.Repeat(letter, 500), times)
}

// Each match takes the whole text: all of them would take minutes.
func TestWhoFindsAllMatchesStopsInTime(t *testing.T) {
	gen.Unraced()
	for _, call := range []string{
		`regex.find_n("a*b|a", a, -1)`, `regex.find_n("a*b|a", a, 90000)`, `regex.find_all_string_submatch_n("a*b|a", a, -1)`,
		`regex.split("a*b|a", a)`, `regex.replace(a, "a*b|a", "")`,
	} {
		t.Run(call, func(t *testing.T) {
			s := compiled(t, rego("p", Global, 1, `{"patch": {"n": count([x | x := `+call+`])}} if {a := `+long("a", 190)+`}`))
			_, err := NewEngine(EngineOptions{}).Evaluate(t.Context(), s, Request{Payload: payload(t, `{}`)}, Options{})
			var failed *PolicyError
			require.ErrorAs(t, err, &failed)
			require.Equal(t, CodeTimeout, failed.Code)
			require.NotContains(t, failed.Message, "does not stop")
		})
	}
}

// What is bounded does what it did.
func TestWhatIsFoundIsWhatTheFunctionFinds(t *testing.T) {
	require.Equal(t, `MODIFIED {"all":["a","aab","a"],"first":["a"],"groups":[["ab","b"]],"indexes":[0,2],"none":[],"parts":["a"],"places":"-b-c","replaced":"xx","split":["","-","c"],"text":"b","times":6}`,
		evaluate(t, `{}`, rego("p", Global, 1, `{"patch": {
			"all": regex.find_n("a*b|a", "a-aab-a", -1), "first": regex.find_n("a", "aaa", 1), "none": regex.find_n("a", "aaa", 0),
			"groups": regex.find_all_string_submatch_n("a(b)", "ab", -1), "split": regex.split("a+b?", "aab-ac"),
			"replaced": regex.replace("abab", "ab", "x"), "indexes": indexof_n("aba", "a"), "places": strings.replace_n({"a": "-"}, "abac"), "parts": strings.split_n("a,b,c", ",", 1),
			"text": trim("aba", "a"), "times": product([1, 2, 3]),
		}}`)))
}

// doubled is a policy that builds a value of 2^n parts out of few.
func doubled(n int, use string) string {
	var b strings.Builder
	b.WriteString("{\"patch\": {\"x\": " + use + "}}\n\nx0 := [input.user_id, 1]\ny0 := [input.user_id, 2]\n")
	for i := range n {
		b.WriteString(strings.NewReplacer("$", itoa(i+1), "@", itoa(i)).Replace("x$ := array.concat([x@], [x@])\ny$ := array.concat([y@], [y@])\n"))
	}
	return b.String()
}

func TestAValueThatIsSmallOnlyUntilItIsWalkedFailsItsPolicy(t *testing.T) {
	gen.Unraced()
	for _, use := range []string{"x40", "json.marshal(x40)", "sprintf(\"%v\", [x40])", "x40 == y40", "x40 != y40", "{x | walk(x40, [_, x])}"} {
		t.Run(use, func(t *testing.T) {
			e := NewEngine(EngineOptions{})
			s := compiled(t, rego("p", Global, 1, doubled(40, use)))
			_, err := e.Evaluate(t.Context(), s, Request{Payload: payload(t, `{}`)}, Options{})
			var failed *PolicyError
			require.ErrorAs(t, err, &failed)
			require.Contains(t, []string{CodeTooLarge, CodeTimeout, "eval_builtin_error"}, failed.Code, failed.Message)
		})
	}
}

func TestAnEndlessLoopCostsItsOwnRequestAlone(t *testing.T) {
	e := NewEngine(EngineOptions{Limits: Limits{PolicyTimeout: 20 * time.Millisecond, ChainTimeout: time.Minute}})
	loop := rego("loop", User, 1, `{"reject": count([1 | some i in numbers.range(1, 90000); some j in numbers.range(1, 90000); i * j < 0]) > 0}`)
	loop.UserID = "mallory"
	good := rego("good", Global, 1, `{"patch": {"a": 1}}`)
	s := compiled(t, good, loop)
	_, err := e.Evaluate(t.Context(), s, Request{Payload: payload(t, `{}`), UserID: "mallory"}, Options{})
	require.ErrorIs(t, err, ErrTimeout)
	var failed *PolicyError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, "loop", failed.PolicyID)
	require.Contains(t, failed.Message, "takes longer than 20ms")

	r, err := patient().Evaluate(t.Context(), s, Request{Payload: payload(t, `{}`), UserID: "ana"}, Options{})
	require.NoError(t, err)
	require.Equal(t, Modified, r.Status)
}

// TestWhatCannotBeStoppedIsLeftBehind plays a function that never looks at the
// clock: no Rego we know of can do that behind the guard.
func TestWhatCannotBeStoppedIsLeftBehind(t *testing.T) {
	e := NewEngine(EngineOptions{Limits: Limits{ChainTimeout: time.Millisecond, Concurrency: 1}})
	s := compiled(t, rego("stuck", Global, 1, `{}`))
	stuck := s.All()[0]
	free := make(chan struct{})
	ended, err := e.bounded(t.Context(), func(_ context.Context, w *watch) error {
		w.current.Store(&evaluation{ended: make(chan struct{}), policy: stuck})
		<-free
		return nil
	})
	require.False(t, ended)
	require.ErrorIs(t, err, ErrTimeout)

	e.limits.ChainTimeout = time.Minute
	_, err = e.Evaluate(t.Context(), s, Request{}, Options{}) // the only slot is free again
	var failed *PolicyError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, CodeSuspended, failed.Code)

	close(free)
	require.Eventually(t, func() bool {
		_, err := e.Evaluate(t.Context(), s, Request{}, Options{})
		return err == nil
	}, time.Minute, time.Millisecond)
}

func TestTooManyAtOnceAreAskedToComeBack(t *testing.T) {
	e := NewEngine(EngineOptions{Limits: Limits{ChainTimeout: time.Millisecond, Concurrency: 1}})
	e.slots <- struct{}{}
	_, err := e.Evaluate(t.Context(), compiled(t, rego("p", Global, 1, `{}`)), Request{}, Options{})
	require.ErrorIs(t, err, ErrBusy)
}

func TestPayloadsThatAreRefused(t *testing.T) {
	for _, c := range []struct{ name, payload, want string }{
		{"an enormous number", `{"a": [1, 1e1000000000]}`, "request payload/a/1: is a number"},
		{"a deep one", `{"a": ` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, "is nested too deep"},
		{"a large one", `{"a": "` + strings.Repeat("x", 1<<20) + `"}`, "request payload/a: is too large"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := patient().Evaluate(t.Context(), NewSnapshot(0), Request{Payload: payload(t, c.payload)}, Options{})
			var refused *RequestError
			require.ErrorAs(t, err, &refused)
			require.Contains(t, err.Error(), c.want)
		})
	}
	for _, text := range []string{"", "null", "[]", "{", "{} {}", "7"} {
		_, err := ParsePayload([]byte(text))
		require.Error(t, err, text)
	}
}

// The evaluator quotes what it was given.
func TestAPolicyThatFailsQuotesNoLongText(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	got := evaluate(t, `{"a": "`+long+`"}`, rego("p", Global, 1, `{"reject": true} if to_number(input.current_request_payload.a) > 1`))
	require.Contains(t, got, "to_number")
	require.Less(t, len(got), 1000)
}
