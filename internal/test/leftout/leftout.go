// Package leftout says, where people see it, which tests a machine cannot run and
// which ran with less than they could. What a test that passes prints is seen with
// go test -v alone; make test shows at its end what was noted here.
package leftout

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
)

// What a note begins with.
const (
	none = "LEFT OUT: "
	less = "WITH LESS: "
)

// Noted recognizes a line that this package printed.
func Noted(line string) bool { return strings.HasPrefix(line, none) || strings.HasPrefix(line, less) }

// notes is where they go: go test's cache keeps it with the result.
var notes io.Writer = os.Stderr

// Test leaves a test out that this machine cannot run. With CI in the environment
// it fails.
func Test(t testing.TB, format string, args ...any) {
	t.Helper()
	why := fmt.Sprintf(format, args...)
	if os.Getenv("CI") != "" {
		t.Fatalf("left out, which in CI nothing may be: %s", why)
	}
	Here(t, "%s", why)
}

// Here leaves a test out of what no machine need have, in CI too.
func Here(t testing.TB, format string, args ...any) {
	t.Helper()
	why := fmt.Sprintf(format, args...)
	note(none, t, why)
	t.Skip(why)
}

// Less says that a test goes on with less than it could have.
func Less(t testing.TB, why error) {
	t.Helper()
	note(less, t, why.Error())
	t.Log(why)
}

// note prints a line of its own, in one piece.
func note(kind string, t testing.TB, why string) {
	_, _ = fmt.Fprintf(notes, "%s%s: %s\n", kind, t.Name(), strings.ReplaceAll(why, "\n", "; "))
}
