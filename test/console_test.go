package test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/cmd/edict/demodata"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/test/issuer"
	"github.com/edictdev/edict/internal/test/leftout"
)

var (
	consoleLong  = flag.Bool("console.long", false, "every view of the console, in both themes, with a kill -9 and hostile text, as make test-console has it")
	consoleShots = flag.String("console.shots", "", "directory for pictures of the views; empty: none")
)

// TestTheConsoleInABrowser has a real browser look at a real plane, with access configured,
// and compares what it shows with the API. ui/test has the steps.
func TestTheConsoleInABrowser(t *testing.T) {
	root, err := gen.ModuleRoot()
	require.NoError(t, err)
	browser := aBrowser(t, root)
	i := issuer.New(t).ByName()
	p := guardedPlane(t, "--decision-log", "--rate", "0", "--oidc-issuer", i.URL, "--oidc-audience", i.ClientID)
	w := &shownWorld{process: p, issuer: i}
	w.seed()
	given := w.given(browser)
	given["node"], given["flow"] = "db-prod-eua-0059", map[string]any{"direction": "ingress", "peer": "app-prod-eua-0042", "protocol": "tcp", "port": 5432}
	given["guestProject"], given["guestToken"] = guestProject, w.guest
	w.drive(filepath.Join(root, "ui"), "test/console.mjs", given, nil)
}

// aBrowser is the path of a browser; without one, or without the packages that drive it,
// the test is left out.
func aBrowser(t *testing.T, root string) string {
	t.Helper()
	for _, dir := range []string{"playwright-core", "axe-core"} {
		if _, err := os.Stat(filepath.Join(root, "ui", "node_modules", dir)); err != nil {
			leftout.Here(t, "the console is looked at by a browser that %s drives: run npm ci in ui", dir)
		}
	}
	if _, err := exec.LookPath("node"); err != nil {
		leftout.Here(t, "the console is looked at by a browser that node drives: %v", err)
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	leftout.Here(t, "the console is looked at by a browser: install chromium")
	return ""
}

// shownWorld is a plane with something to show.
type shownWorld struct {
	*process
	policy     string // id of shop-app-to-db
	guest      string // token of who may see one project
	guestToken string // that token's id
	issuer     *issuer.Issuer
}

const (
	guestProject = "00000000-0000-4000-8000-000000000002"
	shownNodes   = 300
)

const noTelnet = `# METADATA
# title: no-telnet
# custom:
#   policy_type: Global
#   service_type: network-policy
package dcm.policy.telnet

result := {"reject": true, "reason": "nothing may listen on 23"} if {
	some rule in input.current_request_payload.rules
	rule.ports.from <= 23
	rule.ports.to >= 23
}
`

// seed fills the plane with the demo's policies and some of its nodes, most of which report
// that they applied what they must.
func (w *shownWorld) seed() {
	t := w.t
	w.ok("policy", "apply", "-f", w.file("policies.yaml", demodata.Policies))
	var nodes bytes.Buffer
	for i := range shownNodes {
		require.NoError(t, json.NewEncoder(&nodes).Encode(demodata.Node(i)))
	}
	w.ok("node", "import", "-f", w.file("nodes.ndjson", nodes.Bytes()))
	var follow []string
	for i := range shownNodes {
		if i%29 != 5 && (*consoleLong || i < 100) {
			follow = append(follow, demodata.Node(i).ID)
		}
	}
	w.reported(follow, func(i int) bool { return i%71 == 7 })
	for _, to := range []string{"5433", "5434"} { // two changes, whose arrivals have curves
		revised := bytes.Replace(demodata.Policies, []byte("ports: {from: 5432, to: 5432}"), []byte("ports: {from: 5432, to: "+to+"}"), 1)
		w.ok("policy", "apply", "-f", w.file("policies.yaml", revised))
		w.reported(follow[20:80], func(int) bool { return false })
	}
	w.ok("admission", "apply", "-f", w.file("no-telnet.rego", []byte(noTelnet)))
	w.do("POST", "/api/v1/engine/evaluate", json.RawMessage(`{"request_payload":{"service_type":"network-policy","rules":[]}}`), 200)
	w.policy = w.idOf("shop-app-to-db")

	w.do("PUT", "/v1/access/principals/ana", map[string]any{"kind": "person", "oidc": []any{map[string]string{"issuer": w.issuer.URL, "subject": w.issuer.Subject}}}, 200)
	w.ok("access", "grant", "ana", "project:"+defaultProject+"#read")
	w.guest = strings.TrimSpace(w.ok("access", "token", "create", "guest"))
	w.ok("access", "grant", "guest", "project:"+guestProject+"#read", "project:"+guestProject+"#operator")
	w.do("PUT", "/v1/projects/"+guestProject+"/nodes/guest-1", json.RawMessage(`{"labels":{"role":"guest"},"addresses":["192.0.2.1"]}`), 201)
	var guest struct{ Tokens []struct{ ID uuid.UUID } }
	require.NoError(t, json.Unmarshal(w.do("GET", "/v1/access/principals/guest", nil, 200), &guest))
	w.guestToken = guest.Tokens[0].ID.String()
}

// idOf is the id of a policy.
func (w *shownWorld) idOf(slug string) string {
	w.t.Helper()
	var page struct{ Items []struct{ ID, Slug string } }
	require.NoError(w.t, json.Unmarshal(w.do("GET", "/v1/projects/"+defaultProject+"/policies?prefix="+slug, nil, 200), &page))
	at := slices.IndexFunc(page.Items, func(p struct{ ID, Slug string }) bool { return p.Slug == slug })
	require.GreaterOrEqual(w.t, at, 0, slug)
	return page.Items[at].ID
}

// ok runs a command that must end well.
func (w *shownWorld) ok(args ...string) string {
	w.t.Helper()
	out, code := w.run(args...)
	require.Zero(w.t, code, "edict %v: %s", args, out)
	return out
}

func (w *shownWorld) file(name string, text []byte) string {
	path := filepath.Join(w.t.TempDir(), name)
	require.NoError(w.t, os.WriteFile(path, text, 0o600))
	return path
}

// reported has nodes say that they have what they must, or refuse it, some at once.
func (w *shownWorld) reported(nodes []string, refuses func(i int) bool) {
	w.t.Helper()
	var all errgroup.Group
	all.SetLimit(16)
	for i, node := range nodes {
		all.Go(func() error { return w.report(node, refuses(i)) })
	}
	require.NoError(w.t, all.Wait())
}

// report says for a node that it has what it must, or refuses it.
func (w *shownWorld) report(node string, refuses bool) error {
	var state struct{ Policy struct{ Fingerprint string } }
	header, err := w.send(http.MethodGet, "/v1/nodes/"+node+"/state", nil, &state)
	if err != nil {
		return err
	}
	said := map[string]any{"event_id": header.Get("Edict-Event-Id"), "fingerprint": state.Policy.Fingerprint}
	if refuses {
		said["outcome"], said["reason"] = "refused", "nft: No space left on device"
	}
	_, err = w.send(http.MethodPost, "/v1/nodes/"+node+"/applied", said, nil)
	return err
}

// send asks for something, and reads the answer where it is wanted. Nothing judges it: of
// hundreds of answers alike that would be most of the time.
func (w *shownWorld) send(method, path string, body, answer any) (http.Header, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(w.t.Context(), method, "http://"+w.http+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+w.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := (&http.Client{Transport: http.DefaultTransport}).Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return nil, fmt.Errorf("%s %s: %s", method, path, resp.Status)
	}
	if answer == nil {
		return resp.Header, nil
	}
	return resp.Header, json.NewDecoder(resp.Body).Decode(answer)
}

// link is what `edict ui` prints for who has a token.
func (w *shownWorld) link(token string) string {
	w.t.Helper()
	return strings.TrimSpace(w.ok("ui", "--token-file", w.file("token", []byte(token))))
}

// given is what steps must know.
func (w *shownWorld) given(browser string) map[string]any {
	return map[string]any{
		"base": "http://" + w.http, "browser": browser, "long": *consoleLong, "shots": *consoleShots, "token": w.token,
		"policy": w.policy, "link": w.link(w.token), "issuer": w.issuer.URL,
	}
}

// drive runs the steps of a script, does what they ask for, and fails with what they find.
func (w *shownWorld) drive(dir, script string, given map[string]any, more map[string]func(string) string) {
	t := w.t
	text, err := json.Marshal(given)
	require.NoError(t, err)
	require.NoError(t, gen.Files("ui/test"))
	cmd := exec.CommandContext(t.Context(), "node", script)
	cmd.Dir, cmd.Env, cmd.Stderr = dir, append(os.Environ(), "EDICT_CONSOLE="+string(text)), os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	w.serveSteps(out, in, more)
	require.NoError(t, cmd.Wait(), "what the browser saw is not what should be")
}

// typed is the exit code of a command that a view shows.
func (w *shownWorld) typed(command string) string {
	words := strings.Fields(command)
	_, code := w.run(words[1:]...)
	return strconv.Itoa(code)
}

// serveSteps does what the steps ask of whoever runs the plane.
func (w *shownWorld) serveSteps(out io.Reader, in io.Writer, more map[string]func(string) string) {
	do := map[string]func(arg string) string{
		"kill":   func(string) string { w.kill(); return "killed" },
		"start":  func(string) string { w.start(); return "started" },
		"link":   func(string) string { return w.link(w.guest) },
		"type":   func(command string) string { return w.typed(command) },
		"revoke": func(string) string { return w.ok("access", "token", "revoke", "guest", w.guestToken) },
	}
	maps.Copy(do, more)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		kind, rest, _ := strings.Cut(lines.Text(), " ")
		switch kind {
		case "please":
			what, arg, _ := strings.Cut(rest, " ")
			_, err := fmt.Fprintln(in, strings.TrimSpace(do[what](arg)))
			require.NoError(w.t, err)
		case "fault":
			w.t.Error(rest)
		default:
			w.t.Log(lines.Text())
		}
	}
	require.NoError(w.t, lines.Err())
}
