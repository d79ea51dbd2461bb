package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/policy"
)

// child is a server in a process of its own, so that its memory is its own.
type child struct {
	cmd    *exec.Cmd
	log    string // file of what it prints
	exited chan struct{}
	addr   string      // host:port of its HTTP
	trust  *tls.Config // of who speaks to it; nil: it has no certificate
	token  string      // shown to it; empty: it asks for none
	nats   string      // URL; of edict alone
}

// ready is what a ready file says.
type ready struct {
	HTTP string `json:"http"`
	NATS string `json:"nats"`
}

// startSelf runs this binary as one of its servers, named by its first argument. The next is
// the file that it writes once it answers, without what an earlier run left in it.
func startSelf(ctx context.Context, e *env, name, command string, args ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(e.dir, name+".ready")
	if err := os.RemoveAll(file); err != nil {
		return nil, err
	}
	return start(ctx, e.dir, name, file, append([]string{self, command, file}, args...)...)
}

// start runs a server that writes readyFile once it answers.
func start(ctx context.Context, dir, name string, readyFile string, argv ...string) (*child, error) {
	c := &child{log: filepath.Join(dir, name+".log"), exited: make(chan struct{})}
	out, err := os.Create(c.log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	c.cmd = exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.cmd.Stdout, c.cmd.Stderr = out, out
	c.cmd.Env = plainEnvironment()
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = c.cmd.Wait() // how it ended shows in what it did
		close(c.exited)
	}()
	const (
		pause = 5 * time.Millisecond
		most  = 5 * time.Minute // of ten million nodes
	)
	for began := time.Now(); ; {
		var r ready
		if b, err := os.ReadFile(readyFile); err == nil && json.Unmarshal(b, &r) == nil {
			c.addr, c.nats = r.HTTP, r.NATS
			return c, nil
		}
		select {
		case <-time.After(pause):
		case <-c.exited:
			return nil, fmt.Errorf("%s ended before it was ready: %s", name, c.tail())
		}
		if time.Since(began) > most {
			return nil, errors.Join(fmt.Errorf("%s was not ready after %s: %s", name, most, c.tail()), c.stop())
		}
	}
}

// plainEnvironment is ours without what would change the product's flags.
func plainEnvironment() (env []string) {
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "EDICT_") {
			env = append(env, e)
		}
	}
	return env
}

// build builds the product unless it is there.
func (e *env) build(ctx context.Context) (err error) {
	if e.binary == "" {
		e.binary, err = e.built(ctx, "edict") // the next measure uses it too
	}
	return err
}

// built builds a command of this module, and says where it is.
func (e *env) built(ctx context.Context, command string) (string, error) {
	root, err := gen.ModuleRoot()
	if err != nil {
		return "", err
	}
	at := filepath.Join(e.home, command)
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", at, "./cmd/"+command)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", command, err, out)
	}
	return at, nil
}

// startEdict builds the product unless it is there, and serves on e.dir.
func startEdict(ctx context.Context, e *env, flags ...string) (*child, error) {
	if err := e.build(ctx); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(e.dir, 0o700); err != nil {
		return nil, err
	}
	file := filepath.Join(e.dir, "edict.ready")
	argv := []string{
		e.binary, "serve", "--data", filepath.Join(e.dir, "data"),
		"--http", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0", "--ready-file", file,
	}
	if e.identity != nil {
		argv = append(argv, e.identity.flags()...)
	}
	c, err := start(ctx, e.dir, "edict", file, append(argv, flags...)...)
	if err == nil && e.identity != nil {
		c.trust = e.identity.trust
	}
	return c, err
}

// url is where the child serves a path.
func (c *child) url(path string) string {
	if c.trust != nil {
		return "https://" + c.addr + path
	}
	return "http://" + c.addr + path
}

// get asks the child for a path, over a connection of its own.
func (c *child) get(ctx context.Context, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url(path), nil)
	if err != nil {
		return nil, err
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	t := &http.Transport{TLSClientConfig: c.trust, DisableKeepAlives: true}
	return t.RoundTrip(req)
}

// tail is the end of what the child printed.
func (c *child) tail() string {
	const most = 2000
	b, _ := os.ReadFile(c.log) // the error at hand is reported either way
	return string(bytes.TrimSpace(b[max(0, len(b)-most):]))
}

// stop ends the child in order, or else at once.
func (c *child) stop() error {
	const patience = time.Minute
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-c.exited:
		return nil
	case <-time.After(patience):
	}
	err := c.cmd.Process.Kill()
	<-c.exited
	return errors.Join(errors.New("a server did not stop when it was asked to"), err)
}

// resident is the child's memory in bytes: now, and the most it ever was.
func (c *child) resident() (now, most float64, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
	if err != nil {
		return 0, 0, fmt.Errorf("resident memory is read from /proc: %w", err)
	}
	if now, err = statusBytes(string(b), "VmRSS"); err != nil {
		return 0, 0, err
	}
	most, err = statusBytes(string(b), "VmHWM")
	return now, most, err
}

// cpuSeconds is what the child has used so far, of all cores.
func (c *child) cpuSeconds() (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("a process's CPU is read from /proc: %w", err)
	}
	const user, system, ticks = 11, 12, 100 // fields after the name; Linux counts a hundredth of a second
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) <= system {
		return 0, fmt.Errorf("the stat of a process has %d fields", len(fields))
	}
	u, err1 := strconv.ParseFloat(fields[user], 64)
	s, err2 := strconv.ParseFloat(fields[system], 64)
	return (u + s) / ticks, errors.Join(err1, err2)
}

// statusBytes reads a "Name:   123 kB" line.
func statusBytes(status, name string) (float64, error) {
	for line := range strings.Lines(status) {
		rest, ok := strings.CutPrefix(line, name+":")
		if !ok {
			continue
		}
		kb, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 64)
		return kb * 1024, err
	}
	return 0, fmt.Errorf("the status of a process has no %s", name)
}

// served is an edict process and a producer's connection to it.
type served struct {
	*child
	conn *streams.Conn
	log  *streams.Log

	signingKey string // file of the plane's key
}

// serveEdict starts the product and connects to its log.
func serveEdict(ctx context.Context, e *env, flags ...string) (*served, error) {
	c, err := startEdict(ctx, e, flags...)
	if err != nil {
		return nil, err
	}
	s := &served{child: c, signingKey: filepath.Join(e.dir, "data", "signing.key")}
	return s, s.connect(ctx, e.token)
}

// connect opens the log; where it cannot, the process ends.
func (s *served) connect(ctx context.Context, token string) (err error) {
	if s.conn, err = streams.Connect(ctx, streams.ConnectOptions{URL: s.nats, Name: "bench", TLS: s.trust, Token: token}); err == nil {
		s.log, err = streams.OpenLog(ctx, s.conn, streams.LogOptions{})
	}
	if err != nil {
		return errors.Join(err, s.close())
	}
	return nil
}

func (s *served) close() error {
	if s.conn != nil {
		s.conn.Close()
	}
	return s.stop()
}

// publish appends events in order.
func (s *served) publish(ctx context.Context, events []policy.Event) error {
	as := make([]streams.Append, len(events))
	for i, e := range events {
		as[i] = streams.Append{Event: e, Bulk: true}
	}
	_, err := s.log.PublishAll(ctx, as)
	return err
}

// status is what the bench asks of GET /v1/status.
type status struct {
	Head     uint64 `json:"head"`
	Applied  uint64 `json:"applied"`
	Rejected uint64 `json:"rejected"`
	Nodes    int    `json:"nodes"`
	Policies int    `json:"policies"`
	Past     struct {
		Records int `json:"records"`
		Bytes   int `json:"bytes"`
	} `json:"past"`
	Partitions []struct {
		Publisher string `json:"publisher"`
		UpTo      uint64 `json:"upto"`
	} `json:"partitions"`
}

// settled waits until everything in the log is folded, and published for those
// who listen over NATS.
func (s *served) settled(ctx context.Context) (status, error) {
	st, err := s.settledAny(ctx)
	if err == nil && st.Rejected > 0 {
		err = fmt.Errorf("the fold rejected %d events of the bench", st.Rejected)
	}
	return st, err
}

// settledAny is settled, whatever the fold rejected.
func (s *served) settledAny(ctx context.Context) (status, error) {
	for {
		began := time.Now()
		var st status
		err := s.getJSON(ctx, "/v1/status", &st)
		if err != nil && !errors.Is(err, errNotNow) {
			return st, err
		}
		done := err == nil && st.Head == st.Applied
		for _, p := range st.Partitions {
			done = done && p.Publisher != "" && p.UpTo >= st.Head
		}
		if done {
			return st, nil
		}
		// A status of very many nodes and edges is work: asking must not be
		// what the plane is busy with.
		pause := max(50*time.Millisecond, 5*time.Since(began))
		select {
		case <-time.After(min(pause, 2*time.Second)):
		case <-s.exited:
			return st, fmt.Errorf("edict ended: %s", s.tail())
		case <-ctx.Done():
			return st, ctx.Err()
		}
	}
}

// errNotNow is what a busy plane says: ask again.
var errNotNow = errors.New("503 Service Unavailable")

func (c *child) getJSON(ctx context.Context, path string, v any) error {
	resp, err := c.get(ctx, path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusServiceUnavailable:
		return fmt.Errorf("GET %s: %w", path, errNotNow)
	default:
		return fmt.Errorf("GET %s: %s", path, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(v)
}

// folded returns once a pull of a node answers from a fold that has passed seq.
func (s *served) folded(ctx context.Context, node policy.NodeID, seq uint64) error {
	resp, err := s.get(ctx, fmt.Sprintf("/v1/nodes/%s/state?min_seq=%d", node, seq))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("pull of %s: %s", node, resp.Status)
	}
	return nil
}
