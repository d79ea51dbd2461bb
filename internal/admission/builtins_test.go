package admission

import (
	"fmt"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/gen"
)

// TestAPolicyNeedsNoFunctionThatItDoesNotName compiles with every function that
// policies may call, and with those alone that a module names: the compiler says
// the same.
func TestAPolicyNeedsNoFunctionThatItDoesNotName(t *testing.T) {
	gen.Unraced()
	bodies := []string{
		`main := http.send({})`, `main := count(nothing)`, `main := no.such(1)`, `count(x) := x`, `main := data.b.c`, `main := opa.runtime()`,
		`main if { every x in input.list { x > 1 }; some y, z in input.object; y != z }`,
		`main if print("x", input.a)`, `main contains x if some x in input.a | {1}`, `main[x] := y if walk(input, [x, y])`,
		"main := $\"a {input.b} c\"", `main := [x | x := input.a[_] + 1][0] - 2 * 3 / 4 % 5`, `main if not input.a & {1} == set()`, "main if f(1) with count as h\nf(x) := x\nh(_) := 7", "main if f(1) with f as count\nf(x) := x",
		"main if f(1) with input as {} with f as g\nf(x) := x\ng(x) := x + 1", "main := n if n := count(input.a) with count as h\nh(_) := 7",
		`main if time.now_ns() == 5 with time.now_ns as 5`, `main := x if { x := startswith(input.a, "b"); y = x; y }`, `main := x if x := input.count`,
		"default main := false\nmain if input.a[count(input.b)].c == concat(\",\", [sprintf(\"%v\", [1])])", `main := rego.metadata.rule()`,
	}
	for _, b := range capabilities().Builtins {
		args := make([]string, b.Decl.Arity())
		for i := range args {
			args[i] = fmt.Sprintf("input.a%d", i)
		}
		if b.Infix == "" && len(args) > 0 {
			bodies = append(bodies, fmt.Sprintf("main if %s(%s)", b.Name, strings.Join(args, ", ")), fmt.Sprintf("main if %s(%s, 1, 2, 3)", b.Name, strings.Join(args, ", ")))
		}
	}
	fewer := 0
	for _, body := range bodies {
		parse := func() *ast.Module {
			m, err := ast.ParseModuleWithOpts("", "package a\n\n"+body+"\n", ast.ParserOptions{Capabilities: capabilities(), RegoVersion: ast.RegoV1})
			require.NoError(t, err, body)
			return m
		}
		own := capabilitiesOf(parse())
		fewer += len(capabilities().Builtins) - len(own.Builtins)
		require.Equal(t, compileModule(parse(), capabilities()).Errors.Error(), compileModule(parse(), own).Errors.Error(), body)
	}
	require.Greater(t, fewer, 100*len(bodies), "most functions are left out")
}
