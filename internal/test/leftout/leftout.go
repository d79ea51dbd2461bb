// Package leftout says, where people see it, which tests a machine cannot run and
// which ran with less than they could. What a test that passes prints is seen with
// go test -v alone, its stderr too, so make test shows at its end what was noted here.
package leftout

import (
	"fmt"
	"os"
	"testing"
)

// file is the variable that names the file in which it is noted. It lies in the
// module, so that go test does not answer from its cache for a test that wrote to it.
const file = "EDICT_LEFT_OUT"

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
	note("LEFT OUT: %s: %s\n", t.Name(), why)
	t.Skip(why)
}

// Less says that a test goes on with less than it could have.
func Less(t testing.TB, why error) {
	t.Helper()
	note("WITH LESS: %s: %v\n", t.Name(), why)
	t.Log(why)
}

func note(format string, args ...any) {
	line := fmt.Appendf(nil, format, args...)
	_, _ = os.Stderr.Write(line)
	name := os.Getenv(file)
	if name == "" {
		return
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = f.Write(line) // whole: several packages are tested at once
		f.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}
