package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A test that draws itself, by a variable, a helper or a method, under whatever name
// the package is imported; and none that does not.
func TestWhateverTriesFewerCasesIsFound(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("package p\n"+text), 0o600))
	}
	write("plain_test.go", `
import "github.com/edictdev/edict/internal/test/gen"
func TestPlain(t *testing.T) { gen.New(1); Worlds(3) }
func TestByAMethod(t *testing.T) { world{}.draw() }
func TestWithAType(t *testing.T) { _ = world{} }
func TestByAHelper(t *testing.T) { helper() }
func Worlds(int) {}
`)
	write("drawn_test.go", `
import (
	random "pgregory.net/rapid"
	"github.com/edictdev/edict/internal/test/gen"
)
var seeds = flag.Int("seeds", gen.Worlds(3), "")
type world struct{ t *random.T }
func (world) draw() { for range gen.Every(2) {} }
func helper() { again() }
func again() { if false { helper() }; random.Check(nil, nil) }
func TestBySeeds(t *testing.T) { _ = *seeds }
func TestItself(t *testing.T) { random.Check(t, nil) }
func TestNotRaced(t *testing.T) { gen.Unraced() }
func FuzzItself(f *testing.F) { f.Fuzz(random.MakeFuzz(nil)) }
func Testing() { helper() }
func BenchmarkDrawn(b *testing.B) { helper() }
`)
	pattern, err := patternOf([]string{dir}, drawing)
	require.NoError(t, err)
	require.Equal(t, "^(FuzzItself|TestByAHelper|TestByAMethod|TestBySeeds|TestItself|TestNotRaced)$", pattern)
	pattern, err = patternOf([]string{dir}, unraced)
	require.NoError(t, err)
	require.Equal(t, "^(TestNotRaced)$", pattern)
}

func TestAFolderWithoutSuchTestsIsAnError(t *testing.T) {
	_, err := patternOf([]string{t.TempDir()}, drawing)
	require.ErrorContains(t, err, "no test in")
}
