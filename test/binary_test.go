package test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/binary"
	"github.com/edictdev/edict/internal/test/contract"
	"github.com/edictdev/edict/policy"
)

// edict is the path of the product's binary.
var edict = sync.OnceValues(func() (string, error) {
	if *clockOverlay == "" {
		return binary.Edict()
	}
	dir, err := binary.Folder()
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "edict")
	return bin, binary.Build("./cmd/edict", bin, "-overlay", *clockOverlay)
})

// described judges every answer that a test gets over HTTP by the description
// that the plane itself serves.
var described = &contract.Transport{Next: http.DefaultTransport}

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // a short life, and little to keep
	if as := os.Getenv(asServer); as != "" {
		beServer(as)
		return
	}
	http.DefaultClient.Transport = described
	code := binary.Main(m)
	for _, fault := range described.Faults() {
		fmt.Fprintln(os.Stderr, fault)
		code = 1
	}
	os.Exit(code)
}

// process is one `edict serve`, that can be killed and started again on the
// same data and addresses.
type process struct {
	t         *testing.T
	bin       string
	data      string
	args      []string
	env       []string // beside the test's own
	clock     *clock   // nil: the machine's
	cmd       *exec.Cmd
	gone      chan struct{} // closed when cmd has ended
	log       bytes.Buffer  // of every run; read it when gone is closed
	http      string
	traced    string // traceparent of further requests
	token     string // bearer token of whoever drives it; empty: none is asked for
	tokenFile string
	nats      string
	where     []string // flags that say where NATS is; nil: an embedded server at nats
	stderr    *os.File // in the place of log, for what it prints there; nil: none
}

// serve starts a plane on temporary data and free ports.
func serve(t *testing.T, args ...string) *process {
	bin, err := edict()
	require.NoError(t, err)
	return serveBinary(t, bin, args...)
}

func serveBinary(t *testing.T, bin string, args ...string) *process {
	p := newProcess(t, bin, args...)
	p.start()
	return p
}

// newProcess is one that was not started yet.
func newProcess(t *testing.T, bin string, args ...string) *process {
	p := &process{t: t, bin: bin, data: t.TempDir(), args: args, http: anyPort, nats: anyPort}
	t.Cleanup(func() {
		if p.cmd != nil {
			p.kill()
		}
		if t.Failed() {
			t.Logf("what serve printed:\n%s", p.log.String())
		}
	})
	return p
}

// start runs the binary and waits for its ready file.
func (p *process) start() {
	p.t.Helper()
	ready := p.launch()
	require.True(p.t, p.becomesReady(ready, 30*time.Second), "serve does not get ready")
}

// launch runs the binary.
func (p *process) launch() (ready string) {
	p.t.Helper()
	ready = filepath.Join(p.t.TempDir(), "ready.json")
	where := p.where
	if where == nil {
		where = []string{"--nats-listen", p.nats}
	}
	args := slices.Concat([]string{"serve", "--data", p.data, "--http", p.http, "--ready-file", ready}, where, p.args)
	p.cmd = exec.Command(p.bin, args...)
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = &p.log, &p.log, slices.Concat(os.Environ(), p.env, p.clock.env())
	if p.stderr != nil {
		p.cmd.Stderr = p.stderr
	}
	require.NoError(p.t, p.cmd.Start())
	cmd, gone := p.cmd, make(chan struct{})
	p.gone = gone
	go func() { cmd.Wait(); close(gone) }()
	return ready
}

// becomesReady waits for the ready file; false: not in time, or it ended.
func (p *process) becomesReady(ready string, limit time.Duration) bool {
	var at binary.Addresses
	var there bool
	waitFor(limit, func() bool {
		at, there = binary.Ready(ready)
		return there || p.ended()
	})
	if !there || p.ended() {
		return false
	}
	if p.http == anyPort { // after a restart it must be where it was
		p.http, p.nats = at.HTTP, trimScheme(at.NATS)
	}
	return true
}

const anyPort = "127.0.0.1:0"

func (p *process) ended() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

func trimScheme(url string) string { return strings.TrimPrefix(url, "nats://") }

// kill ends the process as kill -9 does.
func (p *process) kill() {
	p.cmd.Process.Kill() // fails when it has ended
	<-p.gone
}

// terminate ends it as an operator does, and wants exit 0.
func (p *process) terminate() {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGTERM))
	if !waitFor(20*time.Second, p.ended) {
		p.signal(syscall.SIGQUIT) // it prints what it does
		<-p.gone
		require.Fail(p.t, "serve does not stop")
	}
	require.Zero(p.t, p.cmd.ProcessState.ExitCode())
}

// run runs the binary's other commands against this plane.
func (p *process) run(args ...string) (stdout string, code int) {
	p.t.Helper()
	cmd := exec.Command(p.bin, args...)
	cmd.Env = append(os.Environ(), "EDICT_SERVER=http://"+p.http, "EDICT_NATS=nats://"+p.nats)
	if p.tokenFile != "" {
		cmd.Env = append(cmd.Env, "EDICT_TOKEN_FILE="+p.tokenFile)
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if cmd.ProcessState == nil {
		require.NoError(p.t, err)
	}
	if errs.Len() > 0 {
		p.t.Logf("edict %v: %s", args[:2], errs.String())
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

const defaultProject = "00000000-0000-4000-8000-000000000000"

// do sends one request and wants a status.
func (p *process) do(method, path string, body any, status int) []byte {
	p.t.Helper()
	var r io.Reader
	if body != nil {
		b, ok := body.([]byte)
		if !ok {
			var err error
			b, err = json.Marshal(body)
			require.NoError(p.t, err)
		}
		r = bytes.NewReader(b)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+p.http+path, r)
	require.NoError(p.t, err)
	if r != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if p.token != "" {
		req.Header.Set("Authorization", "Bearer "+p.token)
	}
	if p.traced != "" {
		req.Header.Set("traceparent", p.traced)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(p.t, err)
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	require.NoError(p.t, err)
	require.Equal(p.t, status, resp.StatusCode, "%s %s: %s", method, path, out)
	return out
}

// state is a node's snapshot and where its stream goes on.
func (p *process) state(node string) (body string, next policy.EventID) {
	p.t.Helper()
	resp, err := http.Get("http://" + p.http + "/v1/nodes/" + node + "/state")
	require.NoError(p.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(p.t, err)
	require.Equal(p.t, http.StatusOK, resp.StatusCode, "%s", b)
	next, err = policy.ParseEventID(resp.Header.Get("Edict-Event-Id"))
	require.NoError(p.t, err)
	return string(bytes.TrimRight(b, "\n")), next
}

// publicKeys are the plane's keys by id, as GET /v1/keys gives them.
func (p *process) publicKeys() map[string][]byte {
	p.t.Helper()
	var list struct {
		Items []struct {
			KeyID     string `json:"key_id"`
			PublicKey []byte `json:"public_key"`
		} `json:"items"`
	}
	require.NoError(p.t, json.Unmarshal(p.do("GET", "/v1/keys", nil, 200), &list))
	keys := map[string][]byte{}
	for _, k := range list.Items {
		keys[k.KeyID] = k.PublicKey
	}
	return keys
}
