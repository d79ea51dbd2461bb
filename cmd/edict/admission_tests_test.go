package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const worked = "../../docs/examples/admission"

// TestTheWorkedPoliciesPassTheirTests runs the policies of the documentation, and
// compares the page with the files.
func TestTheWorkedPoliciesPassTheirTests(t *testing.T) {
	var out, said bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"admission", "test", "-f", worked, "--threshold", "100"}, nil, &out, &said), "%s%s", out.String(), said.String())
	require.Contains(t, said.String(), "9 tests pass, 0 fail; 0 policies have none")
	page, err := os.ReadFile("../../docs/admission-examples.md")
	require.NoError(t, err)
	files, err := filepath.Glob(worked + "/*.rego")
	require.NoError(t, err)
	require.Len(t, files, 3)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Contains(t, string(page), "```rego\n"+string(text)+"```\n", "the page shows %s as it is", file)
	}
}

const half = `# METADATA
# title: half
# custom:
#   policy_type: Global
#   priority: 1
#   test_cases:
#   - {name: small, request: {request_payload: {cpu: 1}}, expect: {status: approved}}
package dcm.policy.half

result := {"reject": true} if {
	input.current_request_payload.cpu > 4
	input.user_id != "root"
}
`

func TestCoverageNamesTheLinesThatNoTestEvaluates(t *testing.T) {
	file := filepath.Join(t.TempDir(), "half.rego")
	require.NoError(t, os.WriteFile(file, []byte(half), 0o600))
	test := func(args ...string) (int, string, string) {
		var out, said bytes.Buffer
		code := run(t.Context(), append([]string{"admission", "test", "-f", file}, args...), nil, &out, &said)
		return code, out.String(), said.String()
	}
	code, out, _ := test()
	require.Zero(t, code)
	require.NotContains(t, out, "covered")
	code, out, _ = test("--coverage")
	require.Zero(t, code)
	require.Contains(t, out, "half: 33.33 % covered, not lines 10, 12\n")
	code, _, said := test("--threshold", "50")
	require.Equal(t, 1, code)
	require.Contains(t, said, "1 policies are covered less than 50 %")
	code, out, _ = test("--threshold", "30", "-o", "json")
	require.Zero(t, code)
	require.Contains(t, out, `"not_covered"`)
	code, _, _ = test("--threshold", "101")
	require.Equal(t, 2, code)
}

// TestTestsAreRunAgainWhenAFileChanges edits a policy under a watch, and breaks it.
func TestTestsAreRunAgainWhenAFileChanges(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("half.rego", half)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r, w := io.Pipe()
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, []string{"admission", "test", "-f", dir, "--watch"}, nil, w, w) }()
	lines := bufio.NewScanner(r)
	until := func(want string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), want) {
				return
			}
		}
		t.Fatalf("no %q: %v", want, lines.Err())
	}
	until("1 tests pass, 0 fail")
	write("half.rego", strings.Replace(half, "cpu > 4", "cpu > 0 # now all", 1))
	until("FAIL  half: small")
	until("0 tests pass, 1 fail")
	write("half.rego", "package")
	until("half.rego:1")
	write("half.rego", half)
	until("1 tests pass, 0 fail")
	write("other.rego", strings.NewReplacer("half", "other", "priority: 1", "priority: 2").Replace(half))
	until("2 tests pass, 0 fail")
	go func() { _, _ = io.Copy(io.Discard, r) }()
	stop()
	require.Zero(t, <-ended, "a signal is how it is meant to end")

	var said bytes.Buffer
	require.Equal(t, 2, run(t.Context(), []string{"admission", "test", "-f", "-", "--watch"}, strings.NewReader(""), io.Discard, &said))
	require.Contains(t, said.String(), "--watch needs files")
}
