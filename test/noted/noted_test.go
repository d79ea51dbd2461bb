package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sources are packages that end in each of the ways in which one can.
var sources = map[string]string{
	"go.mod":            "module example.test\n\ngo 1.26\n",
	"passes/x_test.go":  test(`t.Log("unseen"); print("LEFT OUT: TestIt: no disk\n"); println("unseen, too")`),
	"skips/x_test.go":   test(`print("WITH LESS: TestIt: no data\n"); t.Skip("no disk")`),
	"fails/x_test.go":   test(`println("printed"); t.Run("good", func(t *testing.T) { t.Log("unseen") }); t.Run("bad", func(t *testing.T) { t.Error("seen\nof two lines") })`) + "\nfunc TestGood(t *testing.T) { t.Log(\"unseen\") }\n",
	"panics/x_test.go":  test(`t.Run("a", func(t *testing.T) { t.Log("seen"); panic("it does") })`),
	"exits/x_test.go":   "package x\n\nimport (\"os\"; \"testing\")\n\nfunc TestMain(m *testing.M) { println(\"no disk\"); os.Exit(3) }\n",
	"broken/x_test.go":  test(`undefined()`),
	"untested/x.go":     "package x\n",
	"untried/x_test.go": "package x\n",
}

func test(body string) string {
	return "package x\n\nimport \"testing\"\n\nfunc TestIt(t *testing.T) { " + body + " }\n"
}

// TestItPrintsWhatGoTestPrints has go test itself as its judge.
func TestItPrintsWhatGoTestPrints(t *testing.T) {
	dir := t.TempDir()
	for name, text := range sources {
		at := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
		require.NoError(t, os.WriteFile(at, []byte(text), 0o644))
	}
	for _, packages := range [][]string{{"./..."}, {"./passes", "./skips", "./untested"}, {"./passes", "./skips"}} {
		without := gotest(t, dir, packages...)
		events := gotest(t, dir, append([]string{"-json"}, packages...)...)
		var out, notes strings.Builder
		require.NoError(t, retell(&out, &notes, strings.NewReader(events)))
		require.Equal(t, comparable(without), comparable(out.String()))
		require.Equal(t, []string{"LEFT OUT: TestIt: no disk", "WITH LESS: TestIt: no data"}, comparable(notes.String()), "of what the cache repeats, too")
	}
}

// TestItEndsAsTheCommandDoes looks at its exit status.
func TestItEndsAsTheCommandDoes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "notes")
	for script, want := range map[string]int{"exit 0": 0, "exit 3": 3, "kill -9 $$": 1} {
		status, err := run(file, []string{"sh", "-c", script})
		require.NoError(t, err)
		require.Equal(t, want, status, script)
	}
	status, err := run(file, []string{filepath.Join(t.TempDir(), "none")})
	require.Error(t, err)
	require.Equal(t, 1, status)
	status, err = run("", nil)
	require.ErrorContains(t, err, "say what to run")
	require.Equal(t, 2, status)
	_, err = run(filepath.Join(file, "in-a-file"), []string{"true"})
	require.Error(t, err)
	full := `printf '%s\n' '{"Action":"output","Package":"p","Test":"T","Output":"LEFT OUT: T: no disk\n"}'; head -c 1000000 /dev/zero`
	_, err = run("/dev/full", []string{"sh", "-c", full})
	require.ErrorContains(t, err, "no space left", "and the command is not left waiting for a reader")
}

// gotest gives what it prints, however it ends.
func gotest(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"test"}, args...)...)
	cmd.Dir = dir
	out, _ := cmd.CombinedOutput() // as many fail
	return string(out)
}

// varies is what two runs of the same test do not print alike.
var varies = regexp.MustCompile(`\t[0-9.]+s\b|\t\(cached\)|\([0-9.]+s\)|0x[0-9a-f]+|goroutine [0-9]+`)

// comparable are the lines in an order of their own, as packages are tested at once, and
// without the space that go test puts before those of subtests.
func comparable(text string) []string {
	lines := strings.Split(strings.TrimSuffix(varies.ReplaceAllString(text, ""), "\n"), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimSpace(l)
	}
	slices.Sort(lines)
	return lines
}
