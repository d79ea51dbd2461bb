package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/compiler/rete"
	"github.com/edictdev/edict/internal/test/reterepo"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"retectl": main})
}

// TestStories runs the stories of testdata: one for each rule, with good and
// bad repositories, and those of the commands. Each begins with the
// specification's repository in $WORK/repo and its signer's key in primary.key.
func TestStories(t *testing.T) {
	t.Parallel()
	example := reterepo.Example()
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			// A short command starts in half the time so.
			env.Setenv("GOGC", "400")
			env.Setenv("GOMAXPROCS", "1")
			env.Setenv("GIT_CEILING_DIRECTORIES", filepath.Dir(env.WorkDir))
			if err := os.WriteFile(filepath.Join(env.WorkDir, "primary.key"), reterepo.KeyPEM("primary"), 0o600); err != nil {
				return err
			}
			return reterepo.Write(example, filepath.Join(env.WorkDir, "repo"))
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"fresh": func(ts *testscript.TestScript, _ bool, _ []string) {
				ts.Check(os.RemoveAll(ts.MkAbs("repo")))
				ts.Check(reterepo.Write(example, ts.MkAbs("repo")))
			},
			"edit":   edit,
			"breaks": breaks,
			"valid":  valid,
			"forge":  forge,
			"ends":   ends,

			"accepts": accepts,

			"fingerprint": lastFingerprint,

			"enrolled": enrolled, "introduce": introduce, "rekey": rekey, "listens": listens,
		},
	})
}

// validate runs retectl validate -o json on repo, in this process.
func validate(ts *testscript.TestScript) (code int, faults []rete.Fault) {
	var stdout, stderr bytes.Buffer
	code = run(context.Background(), []string{"validate", "--repo", ts.MkAbs("repo"), "-o", "json"}, &stdout, &stderr)
	if err := json.Unmarshal(stdout.Bytes(), &faults); err != nil {
		ts.Fatalf("exit %d, %v: %s%s", code, err, &stdout, &stderr)
	}
	for _, f := range faults {
		ts.Logf("%v", f)
	}
	return code, rete.Violations(faults)
}

// valid is "valid": the repository has no fault.
func valid(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: valid")
	}
	if code, faults := validate(ts); code != cli.Fine || len(faults) > 0 {
		ts.Fatalf("exit %d, %v", code, faults)
	}
}

// breaks is "breaks RULES PLACE TEXT...": exactly these rules (comma separated)
// are broken, the first at that place, with a message that holds the texts.
func breaks(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: breaks RULES PLACE TEXT...")
	}
	code, faults := validate(ts)
	if code != cli.Differs {
		ts.Fatalf("exit code %d, want %d", code, cli.Differs)
	}
	var rules []string
	for _, f := range faults {
		if !slices.Contains(rules, f.Rule) {
			rules = append(rules, f.Rule)
		}
		if f.Label == "" || f.Path == "" || f.Message == "" {
			ts.Fatalf("%+v says too little", f)
		}
	}
	if got := strings.Join(rules, ","); got != args[0] {
		ts.Fatalf("rules %s are broken, want %s", got, args[0])
	}
	if got := faults[0].Place(); got != args[1] {
		ts.Fatalf("told at %s, want %s", got, args[1])
	}
	for _, text := range args[2:] {
		if !strings.Contains(faults[0].Message, text) {
			ts.Fatalf("%q does not say %q", faults[0].Message, text)
		}
	}
}

// edit is "edit FILE OLD NEW": it replaces a text that must be there, once.
func edit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: edit FILE OLD NEW")
	}
	unescape := strings.NewReplacer(`\n`, "\n")
	old, text := unescape.Replace(args[1]), ts.ReadFile(args[0])
	if n := strings.Count(text, old); n != 1 {
		ts.Fatalf("%q is in %s %d times", old, args[0], n)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.Replace(text, old, unescape.Replace(args[2]), 1)), 0o644))
}

// ends is "ends CODE COMMAND...".
func ends(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: ends CODE COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := err.(*exec.ExitError)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// lastFingerprint is "fingerprint LOG NAME": it keeps that of the last event.
func lastFingerprint(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: fingerprint LOG NAME")
	}
	lines := strings.Split(strings.TrimSpace(ts.ReadFile(args[0])), "\n")
	var e rete.Enrollment
	ts.Check(json.Unmarshal([]byte(lines[len(lines)-1]), &e))
	ts.Setenv(args[1], e.Fingerprint)
}

// without drops what differs by design: signatures, and keys, for which the
// specification has placeholders.
func without(t *testing.T, doc []byte) map[string]any {
	t.Helper()
	var e map[string]any
	require.NoError(t, json.Unmarshal(doc, &e))
	delete(e, "signature")
	payload, _ := e["payload"].(map[string]any)
	if trust, ok := payload["trust"].(map[string]any); ok {
		for _, s := range trust["authorized_mgmt_signers"].([]any) {
			delete(s.(map[string]any), "pubkey")
		}
	}
	return e
}

func TestTheSpecificationsExamplesComeOutOfItsRepository(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, reterepo.Write(reterepo.Example(), dir))
	key := filepath.Join(t.TempDir(), "primary.key")
	require.NoError(t, os.WriteFile(key, reterepo.KeyPEM("primary"), 0o600))
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{
		"compile", "--repo", dir, "--signing-key", key, "--signer", "primary", "--version", "42", "--generated-at", "2026-04-20T12:00:00Z",
	}, &stdout, &stderr)
	require.Zero(t, code, "%s", stderr.String())
	for _, c := range []struct{ example, path string }{
		{"alice-laptop-agent", "alice-laptop/mgmt/agent.json"},
		{"alice-laptop-vertex", "alice-laptop/mgmt/vertices/flor.json"},
		{"alpha-vertex", "alpha/mgmt/vertices/flor.json"},
	} {
		t.Run(c.example, func(t *testing.T) {
			want, err := os.ReadFile(filepath.Join("testdata", "specification", c.example+".json"))
			require.NoError(t, err)
			got, err := os.ReadFile(filepath.Join(dir, ".flor", "compiled", c.path))
			require.NoError(t, err)
			require.Equal(t, without(t, want), without(t, got))
		})
	}
}

func TestTheSameSourcesMakeTheSameBytesOnAnyMachine(t *testing.T) {
	key := filepath.Join(t.TempDir(), "primary.key")
	require.NoError(t, os.WriteFile(key, reterepo.KeyPEM("primary"), 0o600))
	trees := make([]map[string]string, 2)
	for i := range trees {
		dir := filepath.Join(t.TempDir(), fmt.Sprintf("here[%d]", i)) // a glob's letters in the path change nothing
		require.NoError(t, reterepo.Write(reterepo.Example(), dir))
		var stderr bytes.Buffer
		t.Setenv("SOURCE_DATE_EPOCH", "1776686400")
		require.Zero(t, run(t.Context(), []string{"compile", "--repo", dir, "--signing-key", key, "--version", "7"}, &bytes.Buffer{}, &stderr), stderr.String())
		trees[i] = map[string]string{}
		out := os.DirFS(filepath.Join(dir, ".flor", "compiled"))
		require.NoError(t, fs.WalkDir(out, ".", func(name string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				text, err := fs.ReadFile(out, name)
				require.NoError(t, err)
				trees[i][name] = string(text)
			}
			return err
		}))
	}
	require.Len(t, trees[0], 8)
	require.Equal(t, trees[0], trees[1])
	require.Contains(t, trees[0]["alpha/mgmt/agent.json"], `"generated_at": "2026-04-20T12:00:00Z"`)
}
