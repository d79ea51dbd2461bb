// Package binary builds the product's programs for tests, and runs planes of them. A
// test that drives a plane in a process of its own is linked without one.
package binary

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/edictdev/edict/internal/test/gen"
)

// built names, in the environment, an edict that was built of these sources already. make
// test builds it once for all that drive it.
const built = "EDICT_TEST_BINARY"

// Edict is the path of ./cmd/edict, built at the first call.
var Edict = sync.OnceValues(func() (string, error) {
	if bin := os.Getenv(built); bin != "" {
		_, err := os.Stat(bin) // go's test cache sees by it when it is another
		return bin, err
	}
	dir, err := Folder()
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "edict")
	return bin, Build("./cmd/edict", bin)
})

// Folder is where this process keeps what it builds, until Main removes it.
var Folder = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "edict-test-")
	folder = dir
	return dir, err
})

var folder string // empty: nothing was built

// Main runs a package's tests, and removes what they built.
func Main(m *testing.M) (code int) {
	code = m.Run()
	if folder != "" {
		os.RemoveAll(folder)
	}
	return code
}

// Build puts a program's binary at bin. go run keeps what it linked, where go build links
// anew for a folder that is new, which is half a minute of CPU for all that is built here.
// What it keeps is linked to where the file system can, and copied elsewhere.
func Build(program, bin string, flags ...string) error {
	root, err := gen.ModuleRoot()
	if err != nil {
		return err
	}
	if err := gen.Sources(program); err != nil {
		return err
	}
	cmd := exec.Command("go", slices.Concat([]string{"run", "-trimpath", "-exec", `sh -c 'ln "$0" "$1" 2>/dev/null || cp "$0" "$1"'`}, flags, []string{program, bin})...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "GOGC=400") // a third of its time is collecting garbage
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", program, err, out)
	}
	return nil
}
