package test

import (
	"fmt"
	"os"
	"testing"
)

// unavailable leaves a test out that this machine cannot run, where people see it:
// not among what -v shows alone. With CI in the environment it fails.
func unavailable(t *testing.T, format string, args ...any) {
	t.Helper()
	why := fmt.Sprintf(format, args...)
	if os.Getenv("CI") != "" {
		t.Fatalf("left out, which in CI nothing may be: %s", why)
	}
	fmt.Fprintf(os.Stderr, "LEFT OUT: %s: %s\n", t.Name(), why)
	t.Skip(why)
}
