package test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// rulesByID is a node as a follower's state file has it, or as the plane shows it:
// rules by policy.
type rulesByID map[string]string

// kept are the rows in a follower's state file; nil: there is none yet.
func kept(t *testing.T, file string) rulesByID {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	var doc struct {
		Policies []struct {
			ID    string          `json:"policy_id"`
			Rules json.RawMessage `json:"rules"`
		} `json:"policies"`
	}
	require.NoError(t, json.Unmarshal(text, &doc))
	rows := rulesByID{}
	for _, p := range doc.Policies {
		if len(p.Rules) > len("null") {
			rows[p.ID] = string(p.Rules)
		}
	}
	return rows
}

// shown are the rows that the plane has for a node.
func (p *process) shown(node string) rulesByID {
	p.t.Helper()
	var doc struct {
		Items []struct {
			ID    string `json:"policy_id"`
			Rules string `json:"rule_payload"`
		} `json:"items"`
	}
	require.NoError(p.t, json.Unmarshal(p.do("GET", "/v1/nodes/"+node+"/rulesets", nil, 200), &doc))
	rows := rulesByID{}
	for _, i := range doc.Items {
		rows[i.ID] = i.Rules
	}
	return rows
}

// watcher is an `edict node watch --state` of one node.
type watcher struct {
	t    *testing.T
	file string
	args []string
	cmd  *exec.Cmd
}

func (p *process) watcher(name string, args ...string) *watcher {
	w := &watcher{t: p.t, file: filepath.Join(p.t.TempDir(), name)}
	w.args = append([]string{"node", "watch", "web-1", "--server", "http://" + p.http, "--state", w.file}, args...)
	p.t.Cleanup(w.stop)
	return w
}

func (w *watcher) start() {
	bin, err := edict()
	require.NoError(w.t, err)
	w.cmd = exec.Command(bin, w.args...)
	w.cmd.Stderr = os.Stderr
	require.NoError(w.t, w.cmd.Start())
}

func (w *watcher) stop() {
	if w.cmd == nil {
		return
	}
	_ = w.cmd.Process.Signal(syscall.SIGTERM)
	_ = w.cmd.Wait() // how it ends is not asked
	w.cmd = nil
}

// learns wants the state file to become what the plane shows.
func (w *watcher) learns(p *process) {
	w.t.Helper()
	want := p.shown("web-1")
	if !waitFor(20*time.Second, func() bool { return fmt.Sprint(kept(w.t, w.file)) == fmt.Sprint(want) }) {
		require.Equal(w.t, want, kept(w.t, w.file), "%s", filepath.Base(w.file))
	}
}

// writer writes policies about one node.
type writer struct {
	*process
	id, head string
	n        int
}

func (p *process) writer(slug string) *writer {
	w := &writer{process: p}
	w.take(p.do("POST", "/v1/projects/"+defaultProject+"/policies", map[string]any{
		"slug": slug, "display_name": slug, "selector": map[string]string{"source": "role=web", "destination": "role=web"}, "rules": []any{w.rule()},
	}, 201))
	return w
}

func (w *writer) take(body []byte) {
	var doc struct {
		ID   string `json:"id"`
		Head struct {
			ID string `json:"id"`
		} `json:"head"`
	}
	require.NoError(w.t, json.Unmarshal(body, &doc))
	w.id, w.head = doc.ID, doc.Head.ID
}

// rule is one that no revision before had.
func (w *writer) rule() any {
	w.n++
	return map[string]any{
		"action": "allow", "protocol": "tcp", "source_cidr": "10.0.0.0/8", "destination_cidr": "10.0.0.0/8",
		"ports": map[string]int{"from": w.n, "to": w.n},
	}
}

func (w *writer) revise(times int) {
	for range times {
		w.take(w.do("PATCH", "/v1/projects/"+defaultProject+"/policies/"+w.id, map[string]any{"rules": []any{w.rule()}}, 200))
	}
}

// copyData copies a data directory as an operator does.
func copyData(t *testing.T, from, to string) {
	t.Helper()
	require.NoError(t, os.RemoveAll(to))
	out, err := exec.Command("cp", "-a", from, to).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// TestARestoredBackupIsNotThePresent: the data directory of version 2 is put back
// after version 12 was announced. Whoever follows ends with what the plane says
// now, over both transports, also who was away until the log had passed the id
// that it comes back with.
func TestARestoredBackupIsNotThePresent(t *testing.T) {
	p := serve(t, "--durability", "relaxed")
	p.do("PUT", "/v1/projects/"+defaultProject+"/nodes/web-1", map[string]any{"labels": map[string]string{"role": "web"}, "addresses": []string{}}, 201)
	web := p.writer("web")
	p.terminate()
	backup := filepath.Join(t.TempDir(), "backup")
	copyData(t, p.data, backup)
	p.args = append(p.args, "--existing")
	p.start()

	atVersion2 := *web
	over := []string{"--nats", "nats://" + p.nats}
	present := []*watcher{p.watcher("sse"), p.watcher("nats", over...)}
	away := []*watcher{p.watcher("away-sse"), p.watcher("away-nats", over...)}
	all := append(present, away...)
	for _, w := range all {
		w.start()
	}
	web.revise(9)
	p.writer("lost") // goes back with the rest
	for _, w := range all {
		w.learns(p)
	}
	for _, w := range away {
		w.stop()
	}
	p.terminate()
	copyData(t, backup, p.data)
	p.start()

	restored := atVersion2
	restored.n = 100
	restored.revise(3)
	for _, w := range present {
		w.learns(p)
	}
	restored.revise(10) // the log passes version 12
	for _, w := range away {
		w.start()
	}
	for _, w := range all {
		w.learns(p)
	}
}
