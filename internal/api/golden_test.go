package api_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/projector"
)

var update = flag.Bool("update", false, "rewrite the golden files from what the API answers")

// told are the headers a golden file shows.
var told = []string{"Allow", "Content-Type", "Edict-Event-Id", "ETag", "Location", "Retry-After", "X-Plexsphere-API-Version"}

// TestGoldenJSON pins what travels, byte for byte: one story, told request by
// request. Bodies are shown indented, which their bytes are not.
func TestGoldenJSON(t *testing.T) {
	p := newPlane(t, func(d *api.Deps) {
		d.Partitions = func() ([]resource.Partition, error) {
			return []resource.Partition{{ID: 0, Publisher: "w1", UpTo: 4}}, nil
		}
		d.Past = func() projector.PastStatus { return projector.PastStatus{From: 1, Records: 2, Bytes: 300, Dropped: 4} }
		d.Keys = func() []resource.Key {
			return []resource.Key{{KeyID: "ed25519:0011223344556677", Alg: "ed25519", Plane: "policy", PublicKey: fingerprint("key"), Status: "current"}}
		}
	})
	id := policies + "/01900000-0000-7000-8000-000000000001"
	rev := "01900000-0000-7000-8000-000000000003"
	second := `{"rules":[` + rule("deny", "tcp", "10.0.0.0/8", "10.1.0.0/16", `,"ports":{"from":5432,"to":5432}`) + `,` +
		rule("log", "any", "fd00::/8", "fd01::/16", "") + `],"expected_revision_id":"` + rev + `"}`
	preview := `{"selector":{"source":"role in (web,edge)","destination":"role=db"},"rules":` + webRules + `}`
	correlated := []string{"X-Correlation-Id: c-1", "X-Edict-Principal: ann"}

	var story bytes.Buffer
	for _, step := range []struct{ method, path, body string }{
		{"POST", policies, draft("web")},
		{"GET", policies, ""},
		{"PUT", nodes + "/n1", `{"labels":{"role":"web"},"addresses":["10.0.0.1","fd00::1"]}`},
		{"PUT", nodes + "/n2", `{"labels":{"role":"db"}}`},
		{"GET", "/v1/nodes/n1/state", ""},
		{"PATCH", id, second},
		{"GET", id + "/revisions", ""},
		{"GET", id + "/revisions/" + rev, ""},
		{"GET", id + "/diff?from_revision=" + rev + "&to_revision=01900000-0000-7000-8000-000000000007", ""},
		{"POST", id + "/dry-run", preview},
		{"GET", nodes, ""},
		{"GET", "/v1/nodes/n1/state", ""},
		{"GET", "/v1/nodes/n2/rulesets", ""},
		{"POST", policies, draft("web")},
		{"POST", policies, `{"slug":"Web","selector":{"source":"","destination":"a"},"rules":[]}`},
		{"DELETE", nodes + "/n2", ""},
		{"DELETE", id, ""},
		{"GET", id, ""},
		{"PUT", "/v1/keys", `{}`},
		{"GET", "/v1/keys", ""},
		{"GET", "/v1/status?digest=true", ""},
		{"GET", "/v1/rejected", ""},
		{"GET", "/livez", ""},
		{"GET", "/readyz?verbose", ""},
	} {
		a := p.do(step.method, step.path, step.body, correlated...)
		if a.StatusCode != 405 && a.StatusCode != 409 {
			require.NotContains(t, []int{500, 503}, a.StatusCode, "%s", a.body)
		}
		tell(&story, step.method, step.path, step.body, a)
	}
	// The digest is the read model's to define.
	masked := regexp.MustCompile(`"digest": "[0-9a-f]{64}"`).ReplaceAll(story.Bytes(), []byte(`"digest": "…"`))
	golden(t, "story.txt", masked)
}

func tell(w *bytes.Buffer, method, path, body string, a answer) {
	fmt.Fprintf(w, "> %s %s\n", method, path)
	if body != "" {
		fmt.Fprintf(w, "> %s\n", body)
	}
	fmt.Fprintf(w, "%d\n", a.StatusCode)
	for _, name := range told {
		if v := a.Header.Get(name); v != "" {
			fmt.Fprintf(w, "%s: %s\n", name, v)
		}
	}
	var pretty bytes.Buffer
	if json.Indent(&pretty, a.body, "", "  ") == nil {
		w.WriteString(strings.TrimRight(pretty.String(), "\n"))
	} else {
		w.Write(bytes.TrimRight(a.body, "\n"))
	}
	w.WriteString("\n\n")
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}
