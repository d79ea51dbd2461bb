// Package standards_test has tools of other authors judge what a plane says of itself:
// its API over HTTP and its subjects on NATS. make test-standards fetches them and runs it.
package standards_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/binary"
	"github.com/edictdev/edict/internal/test/contract"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/test/leftout"
)

var wanted = flag.Bool("standards", false, "run the tools of npm and of the Go proxy")

func TestMain(m *testing.M) { os.Exit(binary.Main(m)) }

// tools leaves a test out where nobody has fetched the tools.
func tools(t *testing.T) {
	t.Helper()
	if !*wanted {
		leftout.Here(t, "make test-standards fetches the tools first")
	}
}

// say runs a tool in a folder, and returns what it printed.
func say(t *testing.T, dir, name string, args ...string) (stdout string) {
	t.Helper()
	if strings.HasPrefix(name, "node_modules") { // another folder is the working one
		here, err := filepath.Abs(name)
		require.NoError(t, err)
		name = here
	}
	var out, errors bytes.Buffer
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errors
	cmd.Env = append(os.Environ(), "GOFLAGS=-trimpath -mod=readonly", "REDOCLY_TELEMETRY=off")
	require.NoError(t, cmd.Run(), "%s %v: %s%s", name, args, out.String(), errors.String())
	t.Logf("%s %s\n%s%s", filepath.Base(name), strings.Join(args, " "), out.String(), errors.String())
	return out.String()
}

// document is the description of the API in a file, as the plane serves it.
func document(t *testing.T, dir string) string {
	t.Helper()
	text, err := contract.Document()
	require.NoError(t, err)
	file := filepath.Join(dir, "openapi.json")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	return file
}

func TestSpectralHasNothingToSay(t *testing.T) {
	tools(t)
	out := say(t, ".", "node_modules/.bin/spectral", "lint", document(t, t.TempDir()), "--ruleset", "spectral.yaml", "--fail-severity", "hint", "--format", "json")
	var found []any
	require.NoError(t, json.NewDecoder(strings.NewReader(out)).Decode(&found), out) // a sentence follows
	require.Empty(t, found)
}

func TestRedoclyHasNothingToSay(t *testing.T) {
	tools(t)
	out := say(t, ".", "node_modules/.bin/redocly", "lint", "--config", "redocly.yaml", "--format", "json", document(t, t.TempDir()))
	require.Regexp(t, `"errors": ?0`, out)
	require.Regexp(t, `"warnings": ?0`, out)
}

func TestAsyncAPIsOwnParserHasNothingToSay(t *testing.T) {
	tools(t)
	require.Empty(t, say(t, ".", "node", "asyncapi.mjs", filepath.Join("..", "..", "docs", "asyncapi.yaml")))
}

// linesOfClient bounds what oapi-codegen makes of the operations of some tags.
const linesOfClient = 15_000

// TestGeneratedGoClientsWork makes four packages, as large as somebody would have in a repository, and has them
// ask a plane.
func TestGeneratedGoClientsWork(t *testing.T) {
	tools(t)
	dir := copied(t, "goclient")
	document(t, dir)
	for _, name := range clients(t) {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		say(t, dir, "go", "tool", "oapi-codegen", "-config", name+".yaml", "openapi.json")
		code, err := os.ReadFile(filepath.Join(dir, name, "client.go"))
		require.NoError(t, err)
		t.Logf("%s: %d lines", name, bytes.Count(code, []byte{'\n'}))
		require.LessOrEqual(t, bytes.Count(code, []byte{'\n'}), linesOfClient)
	}
	say(t, dir, "go", "vet", "./...")
	api := binary.Serve(t, "--nats-listen", "none").URL
	require.Equal(t, `0 before, generated-go written and read, again: policy_slug_taken
1 policies, 0 admission policies, node web-1: node_not_found
`, say(t, dir, "go", "run", ".", api))
}

// TestEveryOperationIsInOneGoClient holds the tags of the configurations against those of the document.
func TestEveryOperationIsInOneGoClient(t *testing.T) {
	var made []string
	for _, name := range clients(t) {
		text, err := os.ReadFile(filepath.Join("testdata", "goclient", name+".yaml"))
		require.NoError(t, err)
		_, list, found := strings.Cut(string(text), "include-tags: [")
		require.True(t, found, name)
		list, _, _ = strings.Cut(list, "]")
		made = append(made, strings.Split(list, ", ")...)
	}
	text, err := contract.Document()
	require.NoError(t, err)
	var described struct{ Tags []struct{ Name string } }
	require.NoError(t, json.Unmarshal(text, &described))
	var tags []string
	for _, tag := range described.Tags {
		tags = append(tags, tag.Name)
	}
	require.ElementsMatch(t, tags, made)
}

// clients are the names of the packages that oapi-codegen makes, each with its configuration.
func clients(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "goclient", "*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for i, f := range files {
		files[i] = strings.TrimSuffix(filepath.Base(f), ".yaml")
	}
	return files
}

func TestAGeneratedTypeScriptClientWorks(t *testing.T) {
	tools(t)
	dir := copied(t, "tsclient")
	here, err := filepath.Abs("node_modules")
	require.NoError(t, err)
	require.NoError(t, os.Symlink(here, filepath.Join(dir, "node_modules")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type":"module"}`), 0o600))
	say(t, dir, filepath.Join(here, ".bin", "openapi-typescript"), document(t, dir), "-o", "schema.ts")
	say(t, dir, filepath.Join(here, ".bin", "tsc"))
	api := binary.Serve(t, "--nats-listen", "none").URL
	require.Equal(t, "0 before, generated-ts written and read, again: policy_slug_taken\n", say(t, dir, "node", filepath.Join("out", "client.js"), api))
}

// copied is a folder of testdata in which a test may write.
func copied(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", name))))
	return dir
}

// root is the repository.
func root(t *testing.T) string {
	t.Helper()
	dir, err := gen.ModuleRoot()
	require.NoError(t, err)
	return dir
}
