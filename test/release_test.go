package test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/binary"
	"github.com/edictdev/edict/internal/test/plexd"
	"github.com/edictdev/edict/internal/test/reterepo"
	"github.com/edictdev/edict/policy"
)

// releaseEvent is one event of a node's stream.
type releaseEvent struct {
	id      policy.EventID
	kind    string
	payload struct {
		NodeID   string `json:"node_id"`
		Kind     string `json:"kind"`
		Name     string `json:"name"`
		Document string `json:"document"`
	}
}

// heard follows a node until its stream ends.
type heard struct {
	mu     sync.Mutex
	events []releaseEvent
}

func (h *heard) all() []releaseEvent {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.events)
}

// hear opens a node's stream after an event id.
func (p *process) hear(node string, after policy.EventID) *heard {
	p.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.http+"/v1/nodes/"+node+"/events", nil)
	require.NoError(p.t, err)
	req.Header.Set("Last-Event-ID", after.String())
	resp, err := (&http.Client{}).Do(req)
	require.NoError(p.t, err)
	require.Equal(p.t, http.StatusOK, resp.StatusCode)
	h := &heard{}
	go func() {
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body) // of 64 KiB, as agents read them
		var e releaseEvent
		var data string
		for lines.Scan() {
			switch name, value, _ := strings.Cut(lines.Text(), ": "); {
			case name == "id":
				e.id, _ = policy.ParseEventID(value)
			case name == "event":
				e.kind = value
			case name == "data":
				data += value
			case name == "" && data != "":
				var n struct{ Payload json.RawMessage }
				if json.Unmarshal([]byte(data), &n) == nil && json.Unmarshal(n.Payload, &e.payload) == nil {
					h.mu.Lock()
					h.events = append(h.events, e)
					h.mu.Unlock()
				}
				e, data = releaseEvent{}, ""
			}
		}
	}()
	return h
}

// artifactsOf are the artifacts of events, in words; ok when nothing else is
// among them but words to pull.
func artifactsOf(events []releaseEvent) (docs []string) {
	for _, e := range events {
		if e.kind == "artifact_updated" {
			docs = append(docs, e.payload.NodeID+"/"+e.payload.Kind+"."+e.payload.Name+": "+e.payload.Document)
		}
	}
	slices.Sort(docs)
	return docs
}

func filesOf(node string, files []reterepo.File) (docs []string) {
	for _, f := range files {
		docs = append(docs, node+"/"+f.Kind+"."+f.Name+": "+string(f.Text))
	}
	slices.Sort(docs)
	return docs
}

// TestReleasedArtifactsReachTheirNodesAndSurvive goes from a compiled
// repository to nodes: byte for byte, only what changed, and whatever happens to
// the plane once the release was acknowledged.
func TestReleasedArtifactsReachTheirNodesAndSurvive(t *testing.T) {
	repo := reterepo.Example()
	v1 := reterepo.Signed(repo, "primary", 1)
	dir, cert := t.TempDir(), filepath.Join(t.TempDir(), "primary.crt")
	require.NoError(t, reterepo.WriteTree(v1, dir))
	require.NoError(t, os.WriteFile(cert, repo["certs/management-planes/primary.crt"].Data, 0o600))
	p := serve(t)
	for node := range v1 {
		p.do("PUT", "/v1/projects/"+defaultProject+"/nodes/"+node, map[string]any{"labels": map[string]string{"rete": "yes"}}, 201)
	}
	_, code := p.run("release", dir, "--trust", cert)
	require.Zero(t, code)
	p.kill()
	p.start()
	for node, files := range v1 {
		require.Equal(t, filesOf(node, files), p.artifacts(node), "the node pulls the files, after kill -9")
		h := p.hear(node, 0)
		require.True(t, waitFor(20*time.Second, func() bool { return len(artifactsOf(h.all())) >= len(files) }))
		require.Equal(t, filesOf(node, files), artifactsOf(h.all()), "and is sent them, when it comes back")
	}

	// One service goes to another group: alpha may not reach it any more.
	f := repo["services/teams.yaml"]
	f.Data = []byte(strings.Replace(string(f.Data), "groups: [db]", "groups: [admin]", 1))
	v2 := reterepo.Signed(repo, "primary", 2)
	touched := map[string]bool{"alpha": true, "beta": true}
	streams, agents := map[string]*heard{}, map[string]*hand{}
	for node := range v1 {
		_, next := p.state(node)
		streams[node] = p.hear(node, next)
		agents[node] = p.hire(node, plexd.Options{Terse: true})
		agents[node].await("it follows", func(c plexd.Counters) bool { return c.Connects() == 1 })
		if !touched[node] {
			v2[node] = v1[node] // as retectl compile keeps it
		}
	}
	require.NoError(t, reterepo.WriteTree(v2, dir))
	out, code := p.run("release", dir)
	require.Zero(t, code)
	require.Equal(t, "2 nodes released, 2 unchanged, 0 refused\n", out)
	p.do("POST", "/v1/projects/"+defaultProject+"/policies", json.RawMessage(`{"slug":"end","selector":{"source":"rete=yes","destination":"rete=yes"},
		"rules":[{"action":"allow","protocol":"any","source_cidr":"10.0.0.0/8","destination_cidr":"10.0.0.0/8"}]}`), 201)
	for node, h := range streams {
		require.True(t, waitFor(20*time.Second, func() bool {
			return slices.ContainsFunc(h.all(), func(e releaseEvent) bool { return e.kind == "policy_updated" })
		}), "what came after the release")
		var want []string
		if touched[node] {
			want = filesOf(node, v2[node])
		}
		require.Equal(t, want, artifactsOf(h.all()), "%s is sent what changed for it", node)
		agents[node].await("it is sent the policy", func(c plexd.Counters) bool { return c.Dispatched == len(want)+1 && c.Applied == 1 })
		c := agents[node].Counters()
		require.Equal(t, [3]int{len(want), 0, 1}, [3]int{c.Unknown, c.Refused(), c.Attempts}, "artifacts are no agent's business, and no harm")
		require.True(t, slices.IsSortedFunc(h.all(), func(a, b releaseEvent) int { return cmp.Compare(a.id, b.id) }))
		require.Equal(t, filesOf(node, v2[node]), p.artifacts(node))
	}
	_, code = p.run("replay", "--verify")
	require.Zero(t, code, "the store equals a replay")
	p.terminate()
}

// artifacts are what a node pulls.
func (p *process) artifacts(node string) (docs []string) {
	p.t.Helper()
	var list struct {
		Items []struct{ Kind, Name, Document string }
	}
	require.NoError(p.t, json.Unmarshal(p.do("GET", "/v1/nodes/"+node+"/artifacts", nil, 200), &list))
	for _, x := range list.Items {
		docs = append(docs, node+"/"+x.Kind+"."+x.Name+": "+x.Document)
	}
	return docs
}

// buildRetectl builds the author's command line into dir.
func buildRetectl(t *testing.T, dir string) (bin string) {
	t.Helper()
	bin = filepath.Join(dir, "retectl")
	require.NoError(t, binary.Build("./cmd/retectl", bin))
	return bin
}

// retectl is the author's command line, run in a directory.
func retectl(t *testing.T) func(args ...string) string {
	t.Helper()
	dir := t.TempDir()
	bin := buildRetectl(t, dir)
	return func(args ...string) string {
		t.Helper()
		cmd := exec.Command(bin, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "retectl %q: %s", args, out)
		return string(out)
	}
}

// Release, rollback, compile, release: each as the one before says.
func TestAfterARollbackTheRepositoryIsReleasedAgain(t *testing.T) {
	author := retectl(t)
	repo := filepath.Join(t.TempDir(), "repo")
	key := repo + "-keys/primary.key"
	author("init", repo, "--rete", "circle")
	p := serve(t, "--durability=relaxed")
	for _, node := range []string{"mgmt", "laptop"} {
		p.do("PUT", "/v1/projects/"+defaultProject+"/nodes/"+node, map[string]any{"labels": map[string]string{}}, 201)
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(p.bin, args...)
		cmd.Env = append(os.Environ(), "EDICT_SERVER=http://"+p.http)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "edict %q: %s", args, out)
		return string(out)
	}
	run("release", "--repo", repo, "--trust", filepath.Join(repo, "certs/management-planes/primary.crt"))
	first := p.artifacts("laptop")

	access := filepath.Join(repo, "access.yaml")
	text, err := os.ReadFile(access)
	require.NoError(t, err)
	require.Contains(t, string(text), "allow: [docs]")
	require.NoError(t, os.WriteFile(access, bytes.Replace(text, []byte("allow: [docs]"), []byte("allow: []"), 1), 0o600))
	author("compile", "--repo", repo, "--signing-key", key)
	run("release", "--repo", repo)
	second := p.artifacts("laptop")
	require.NotEqual(t, contents(t, first), contents(t, second))

	said := run("rollback", "--to", "1", "--signing-key", key)
	require.Equal(t, contents(t, first), contents(t, p.artifacts("laptop")))
	next := regexp.MustCompile(`compile next with (.*)`).FindStringSubmatch(said)
	require.Len(t, next, 2, said)
	author(append([]string{"compile", "--repo", repo, "--signing-key", key}, strings.Fields(next[1])...)...)
	run("release", "--repo", repo)
	require.Equal(t, contents(t, second), contents(t, p.artifacts("laptop")), "what the sources say is back")
	require.Contains(t, run("release", "list"), "circle")
	author("verify", filepath.Join(repo, ".flor/compiled"), "--repo", repo)
}

// Two repositories as retectl init begins them, each with a node laptop: both are
// released to one plane, and the agent of the node keeps a root for each.
func TestANodeOfTwoRetesHasARootForEach(t *testing.T) {
	author := retectl(t)
	p := serve(t, "--durability=relaxed")
	p.do("PUT", "/v1/projects/"+defaultProject+"/nodes/laptop", map[string]any{"labels": map[string]string{}}, 201)
	dir := t.TempDir()
	agent := []string{"agent", "--node", "laptop"}
	trees := map[string]string{} // root → tree
	for _, rete := range []string{"circle", "square.example"} {
		repo := filepath.Join(dir, rete)
		root := filepath.Join(dir, "retes", rete)
		author("init", repo, "--rete", rete)
		author("bundle", "laptop", "--repo", repo, "--keys", repo+"-keys", "--out", root)
		_, code := p.run("release", "--repo", repo, "--trust", filepath.Join(repo, "certs/management-planes/primary.crt"))
		require.Zero(t, code, rete)
		agent = append(agent, "--dir", root)
		trees[root] = filepath.Join(repo, ".flor/compiled/laptop/mgmt")
	}
	cmd := exec.Command(p.bin, agent...)
	cmd.Env = append(os.Environ(), "EDICT_SERVER=http://"+p.http)
	require.NoError(t, cmd.Start())
	defer func() {
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		require.NoError(t, cmd.Wait())
	}()
	for root, tree := range trees {
		for _, name := range []string{"agent.json", "vertices/flor.json"} {
			want, err := os.ReadFile(filepath.Join(tree, name))
			require.NoError(t, err)
			require.True(t, waitFor(30*time.Second, func() bool {
				got, err := os.ReadFile(filepath.Join(root, "mgmt", name))
				return err == nil && bytes.Equal(want, got)
			}), "%s of %s", name, root)
		}
		author("verify", root)
	}
}

// contents are the payloads of documents that artifacts returned.
func contents(t *testing.T, docs []string) (payloads []string) {
	t.Helper()
	for _, d := range docs {
		name, text, _ := strings.Cut(d, ": ")
		var e struct{ Payload json.RawMessage }
		require.NoError(t, json.Unmarshal([]byte(text), &e))
		payloads = append(payloads, name+": "+string(e.Payload))
	}
	return payloads
}
