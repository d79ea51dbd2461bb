package admission

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// unmeetables are pairs of schemas that no value meets both of.
var unmeetables = []struct{ name, a, b string }{
	{"a minimum above a maximum", `{"minimum": 5}`, `{"maximum": 4}`},
	{"a minimum that is excluded", `{"minimum": 5}`, `{"exclusiveMaximum": 5}`},
	{"two excluded bounds", `{"exclusiveMinimum": 5}`, `{"exclusiveMaximum": 5}`},
	{"no whole number between", `{"type": "integer", "exclusiveMinimum": 4}`, `{"exclusiveMaximum": 5}`},
	{"no multiple between", `{"minimum": 5, "multipleOf": 10}`, `{"maximum": 9}`},
	{"lengths", `{"minLength": 5}`, `{"maxLength": 4}`},
	{"items", `{"minItems": 5}`, `{"maxItems": 4}`},
	{"properties", `{"minProperties": 5}`, `{"maxProperties": 4}`},
	{"a constant that is not in the list", `{"const": 1}`, `{"enum": [2, 3]}`},
	{"a constant below the minimum", `{"const": 1}`, `{"minimum": 2}`},
	{"a constant of another type", `{"const": 1}`, `{"type": "string"}`},
	{"a constant beside the pattern", `{"const": "ab"}`, `{"pattern": "^x"}`},
	{"a list of which nothing is left", `{"enum": ["a", "b"]}`, `{"pattern": "^c"}`},
	{"types", `{"type": "string"}`, `{"type": ["integer", "null"]}`},
	{"within allOf", `{"allOf": [{"minimum": 5}]}`, `{"maximum": 4}`},
}

func TestConstraintsThatCannotBeMetTogetherAreNamedTogether(t *testing.T) {
	for _, c := range unmeetables {
		for _, request := range []string{`{}`, `{"x": 1}`} {
			t.Run(c.name+" of "+request, func(t *testing.T) {
				said := evaluate(t, request, rego("a", Global, 1, fmt.Sprintf(`{"constraints": {"x": %s}}`, c.a)), rego("b", User, 1, fmt.Sprintf(`{"constraints": {"x": %s}}`, c.b)))
				require.Contains(t, said, "conflict of b; x: ")
				require.Contains(t, said, "(a)")
			})
		}
	}
	said := evaluate(t, `{}`,
		rego("a", Global, 1, `{"service_provider": {"constraints": {"allow_list": ["gcp"]}}}`),
		rego("b", User, 1, `{"service_provider": {"constraints": {"patterns": ["^aws"]}}}`))
	require.Contains(t, said, "conflict of b; service_provider: ")
	require.Contains(t, said, "(a)")
	said = evaluate(t, `{}`,
		rego("a", Global, 1, `{"service_provider": {"constraints": {"patterns": ["^aws"]}}}`),
		rego("b", User, 1, `{"service_provider": {"constraints": {"allow_list": ["gcp"]}}}`))
	require.Contains(t, said, "conflict of b; service_provider: ")
}

func TestConstraintsThatCanBeMetTogetherStandSideBySide(t *testing.T) {
	for _, c := range [][2]string{
		{`{"minimum": 5}`, `{"maximum": 5}`},
		{`{"type": "number"}`, `{"type": "integer"}`},
		{`{"type": ["string", "null"]}`, `{"type": "null"}`},
		{`{"enum": ["a", "b"]}`, `{"pattern": "^b"}`},
		{`{"multipleOf": 5}`, `{"minimum": 6, "maximum": 10}`},
		{`{"const": 4}`, `{"enum": [4.0, 5]}`},
		{`{"minimum": 5}`, `{"maxLength": 4}`},
		{`{"anyOf": [{"minimum": 5}, {"type": "string"}]}`, `{"maximum": 4}`},
		{`{"type": "string", "minLength": 2}`, `{"maxLength": 2}`},
		{`{"exclusiveMinimum": 4}`, `{"exclusiveMaximum": 5}`},
	} {
		require.Equal(t, `APPROVED {}`, evaluate(t, `{}`, rego("a", Global, 1, fmt.Sprintf(`{"constraints": {"x": %s}}`, c[0])), rego("b", User, 1, fmt.Sprintf(`{"constraints": {"x": %s}}`, c[1]))))
	}
}

func TestConstraintsThatNothingMeetsAreRefusedWhenTheyAreWritten(t *testing.T) {
	for rule, says := range map[string]string{
		`{"constraints": {"x": {"minimum": 5, "maximum": 4}}}`:                                               "x: nothing",
		`{"constraints": {"x": {"const": 1, "enum": [2, 3]}}}`:                                               "x: nothing",
		`{"service_provider": {"constraints": {"allow_list": ["gcp"], "patterns": ["^aws"]}}}`:               "no provider",
		`{"patch": {"x": input.y}, "constraints": {"x": {"const": 1, "enum": [2, 3]}, "y": {"minimum": 1}}}`: "x: nothing",
	} {
		c, err := Compile(t.Context(), rego("p", Global, 1, rule))
		require.NoError(t, err)
		faults := c.Unmeetable()
		require.NotNil(t, faults, rule)
		require.Equal(t, CodeInvalidConstraint, faults.Faults[0].Code)
		require.Equal(t, 3, faults.Faults[0].Row)
		require.Contains(t, faults.Error(), says)
	}
	for _, rule := range []string{
		`{"constraints": {"x": {"minimum": input.low, "maximum": 4}}}`,
		`{"constraints": {"x": {"mode": "immutable"}}}`,
		`{"patch": {"constraints": {"x": {"minimum": 5, "maximum": 4}}}}`,
	} {
		c, err := Compile(t.Context(), rego("p", Global, 1, rule))
		require.NoError(t, err, rule)
		require.Nil(t, c.Unmeetable(), rule)
	}
}

func TestConstraintsThatAreComputedAndNothingMeetsFailThePolicy(t *testing.T) {
	said := evaluate(t, `{"low": 5}`, rego("p", Global, 1, `{"constraints": {"x": {"minimum": input.current_request_payload.low, "maximum": 4}}}`))
	require.Contains(t, said, "failure of p: invalid_constraint")
}
