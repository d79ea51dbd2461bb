package ui

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/contract"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/test/leftout"
)

func ask(t *testing.T, method, path string, header ...string) *http.Response {
	t.Helper()
	h, err := Handler(http.NotFoundHandler(), func(accepted []string) bool { return slices.Contains(accepted, "gzip") })
	require.NoError(t, err)
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	require.NoError(t, err)
	return string(b)
}

func TestEveryViewIsThePage(t *testing.T) {
	page := body(t, ask(t, "GET", "/ui/").Body)
	for _, path := range []string{"/ui/fleet", "/ui/nodes/web-1", "/ui/policies/x?project=y"} {
		require.Equal(t, page, body(t, ask(t, "GET", path).Body), path)
	}
	require.Equal(t, "text/javascript; charset=utf-8", ask(t, "GET", "/ui/console.js").Header.Get("Content-Type"))
	require.Equal(t, "/ui/", ask(t, "GET", "/ui").Header.Get("Location"))
	require.Equal(t, "/ui/?project=x", ask(t, "GET", "/ui?project=x").Header.Get("Location"))
	const browser = "text/html,application/xhtml+xml,*/*;q=0.8"
	home := ask(t, "GET", "/", "Accept", browser)
	require.Equal(t, "/ui/", home.Header.Get("Location"))
	require.Equal(t, "Accept", home.Header.Get("Vary"))
	require.Equal(t, 404, ask(t, "GET", "/", "Accept", "*/*").StatusCode, "no browser")
	require.Equal(t, 404, ask(t, "POST", "/", "Accept", browser).StatusCode)
	for _, path := range []string{"/", "/v1/status", "/uix"} {
		require.Equal(t, 404, ask(t, "GET", path).StatusCode, "%s is another's", path)
	}
	require.Equal(t, 404, ask(t, "POST", "/ui/fleet").StatusCode)
	require.Empty(t, body(t, ask(t, "HEAD", "/ui/").Body))
}

// TestThePageMayRunItsOwnFilesAlone: nothing inline, nothing from elsewhere, and no frame of
// another page.
func TestThePageMayRunItsOwnFilesAlone(t *testing.T) {
	for _, path := range []string{"/ui/", "/ui/console.js", "/ui/console.css", "/ui/icon.svg"} {
		h := ask(t, "GET", path).Header
		policy := h.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'", "require-trusted-types-for 'script'"} {
			require.Contains(t, policy, part, path)
		}
		for _, loose := range []string{"unsafe", "*", "http:", "https:", "data:", "blob:"} {
			require.NotContains(t, policy, loose, path)
		}
		require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"))
		require.Equal(t, "no-referrer", h.Get("Referrer-Policy"))
	}
	page := body(t, ask(t, "GET", "/ui/").Body)
	require.NotRegexp(t, `(?i)<style|\son[a-z]+=|style=|javascript:|https?://|<script(?:[^>]*)>[^<]`, page)
}

// TestThePageIsSmall: 200 KB for everything, compressed as it is sent.
func TestThePageIsSmall(t *testing.T) {
	all, err := assets()
	require.NoError(t, err)
	sum := 0
	for name, a := range all {
		r := ask(t, "GET", "/ui/"+name, "Accept-Encoding", "gzip")
		require.Equal(t, "gzip", r.Header.Get("Content-Encoding"))
		zipped := body(t, r.Body)
		sum += len(zipped)
		plain, err := gzip.NewReader(strings.NewReader(zipped))
		require.NoError(t, err)
		require.Equal(t, string(a.body), body(t, plain))
		require.Equal(t, 304, ask(t, "GET", "/ui/"+name, "If-None-Match", a.etag).StatusCode)
	}
	t.Logf("%d bytes", sum)
	require.Less(t, sum, 200_000)
}

// markup are ways by which a text becomes markup or code.
var markup = regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|DOMParser|srcdoc|\beval\(|new Function|createContextualFragment`)

// TestNoTextBecomesMarkup: names, labels and reasons are whatever somebody wrote, and are
// shown as text.
func TestNoTextBecomesMarkup(t *testing.T) {
	seen := 0
	err := filepath.WalkDir("../../ui/src", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		seen++
		if found := markup.Find(text); found != nil {
			t.Errorf("%s has %s", path, found)
		}
		return err
	})
	require.NoError(t, err)
	require.Greater(t, seen, 10)
}

// TestThePageAsksWhatThereIs: its table of operations says what the API's says.
func TestThePageAsksWhatThereIs(t *testing.T) {
	text, err := os.ReadFile("../../ui/src/api/routes.ts")
	require.NoError(t, err)
	doc, err := contract.Document()
	require.NoError(t, err)
	var described struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	require.NoError(t, json.Unmarshal(doc, &described))
	served := map[string][]string{}
	for path, item := range described.Paths {
		for method, op := range item {
			served[op.OperationID] = []string{strings.ToUpper(method), path}
		}
	}
	asked := regexp.MustCompile(`(\w+): \["([A-Z]+)", "([^"]+)"\],`).FindAllStringSubmatch(string(text), -1)
	require.Greater(t, len(asked), 20)
	for _, a := range asked {
		require.Equal(t, served[a[1]], a[2:], "%s: run npm run types in ui", a[1])
	}
}

// TestTheFilesAreBuiltFromTheSources builds them again, where node and the packages are.
func TestTheFilesAreBuiltFromTheSources(t *testing.T) {
	if _, err := os.Stat("../../ui/node_modules/esbuild"); err != nil {
		leftout.Here(t, "the console's files are not built again: run npm ci in ui")
	}
	if _, err := exec.LookPath("node"); err != nil {
		leftout.Here(t, "the console's files are not built again: %v", err)
	}
	require.NoError(t, gen.Files("ui"))
	out := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "node", "build.mjs", out)
	cmd.Dir = "../../ui"
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", text)
	all, err := assets()
	require.NoError(t, err)
	made, err := os.ReadDir(out)
	require.NoError(t, err)
	require.Len(t, made, len(all))
	for _, f := range made {
		text, err := os.ReadFile(filepath.Join(out, f.Name()))
		require.NoError(t, err)
		require.True(t, bytes.Equal(all[f.Name()].body, text), "%s is of other sources: run make ui", f.Name())
	}
}
