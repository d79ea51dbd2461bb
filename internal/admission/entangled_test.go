package admission

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The compiler cannot be interrupted, so whoever keeps it busy keeps a place from others.
func TestCodeThatKeepsTheCompilerBusyIsRefused(t *testing.T) {
	within := func(begin, end string, n int) string {
		return "a := " + strings.Repeat(begin, n) + "1" + strings.Repeat(end, n)
	}
	every := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "every x%d in [1] { x%d == 1; ", i, i)
		}
		return "a if { " + b.String() + "true" + strings.Repeat(" }", n) + " }"
	}
	chain := func(n int) string { // each expression needs the one behind it
		var b strings.Builder
		for i := n; i > 0; i-- {
			fmt.Fprintf(&b, "x%d = x%d\n", i, i-1)
		}
		return "a if {\n" + b.String() + "x0 = 1\n}"
	}
	for what, code := range map[string][2]string{
		"arrays":    {within("[x | x := ", "]", 5), within("[x | x := ", "]", 60)},
		"sets":      {within("{x | x := ", "}", 5), within("{x | x := ", "}", 60)},
		"objects":   {within("{x: x | x := ", "}", 5), within("{x: x | x := ", "}", 60)},
		"heads":     {within("[", " | true]", 5), within("[", " | true]", 60)},
		"templates": {within(`$"{`, `}"`, 5), within(`$"{`, `}"`, 60)},
		"bodies":    {chain(100), chain(3000)},
		"beside one another": {
			"a := [" + strings.Repeat("[x | x := [y | y := 1]], ", 200) + "1]",
			"a := [" + strings.Repeat("[x | x := [y | y := [z | z := [u | u := 1]]]], ", 1000) + "1]",
		},
	} {
		t.Run(what, func(t *testing.T) {
			p := Policy{ID: "p", Name: "p", Level: User, Rego: "package p\n" + code[0]}
			_, err := Compile(t.Context(), p)
			require.NoError(t, err)
			p.Rego = "package p\n" + code[1]
			_, err = Compile(t.Context(), p)
			var failed *CompileError
			require.ErrorAs(t, err, &failed)
			require.Equal(t, CodeTooLarge, failed.Faults[0].Code, "%v", err)
			require.NotZero(t, failed.Faults[0].Row)
		})
	}
	_, err := Compile(t.Context(), Policy{ID: "p", Name: "p", Level: User, Rego: "package p\n" + every(60)})
	require.NoError(t, err, "that costs nothing")
}
