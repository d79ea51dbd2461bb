//go:build linux

package test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/leftout"
)

const mib = 1 << 20

// accountFull is JetStream's code for an account that holds all it may.
const accountFull = 10002

// smallDisk is a file system of its own.
type smallDisk struct {
	t   *testing.T
	dir string
}

func newSmallDisk(t *testing.T, size int) smallDisk {
	t.Helper()
	d := smallDisk{t, t.TempDir()}
	err := syscall.Mount("tmpfs", d.dir, "tmpfs", 0, fmt.Sprintf("size=%d", size))
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		leftout.Test(t, "a full disk needs a file system of its own, and this user may not mount one (%v): run the test as root", err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(d.dir, syscall.MNT_DETACH)) })
	return d
}

func (d smallDisk) free() int64 {
	var s syscall.Statfs_t
	require.NoError(d.t, syscall.Statfs(d.dir, &s))
	return int64(s.Bavail) * s.Bsize //nolint:gosec // a small disk
}

func (d smallDisk) filler() string { return filepath.Join(d.dir, "filler") }

// leave fills the disk up to so many free bytes; 0 takes every block.
func (d smallDisk) leave(bytes int64) {
	d.t.Helper()
	f, err := os.OpenFile(d.filler(), os.O_CREATE|os.O_WRONLY, 0o600)
	require.NoError(d.t, err)
	defer f.Close()
	info, err := f.Stat()
	require.NoError(d.t, err)
	at := info.Size()
	for step := max(d.free()-bytes, 0); step >= 4096; {
		err := syscall.Fallocate(int(f.Fd()), 0, at, step) //nolint:gosec // a descriptor
		switch {
		case err == nil && bytes > 0:
			return
		case err == nil:
			at += step
		case errors.Is(err, syscall.ENOSPC):
			step /= 2
		case !errors.Is(err, syscall.EINTR):
			require.NoError(d.t, err)
		}
	}
}

func (d smallDisk) clear() { require.NoError(d.t, os.Remove(d.filler())) }

// load writes nodes without end, each with an id of its own, over HTTP and
// straight to the log, and knows which writes were acknowledged.
type load struct {
	p      *process
	acked  sync.Map     // node id -> true
	http   atomic.Int64 // the last status
	native atomic.Int64 // 0, the last error's code, or -1: no answer
	writes [2]atomic.Int64
	stop   func() // ends the writers
}

func (l *load) run(ctx context.Context, t *testing.T) {
	t.Helper()
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	l.stop = func() { cancel(); all.Wait() }
	t.Cleanup(l.stop)
	all.Go(func() { l.each(ctx, l.put) })
	nc, err := nats.Connect("nats://"+l.p.nats, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	all.Go(func() { l.each(ctx, func(ctx context.Context, n int) { l.publish(ctx, js, n) }) })
}

// each paces a writer: the test is about a disk, not about speed.
func (l *load) each(ctx context.Context, write func(context.Context, int)) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-tick.C:
			write(ctx, n)
		case <-ctx.Done():
			return
		}
	}
}

func (l *load) put(ctx context.Context, n int) {
	ctx, cancel := context.WithTimeout(ctx, time.Second) // a store that fails leaves a few without an answer
	defer cancel()
	id := fmt.Sprintf("http-%d", n)
	body := fmt.Sprintf(`{"labels":{"role":"web","n":"%d"},"addresses":[]}`, n)
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://"+l.p.http+"/v1/projects/"+defaultProject+"/nodes/"+id, strings.NewReader(body))
	if err != nil {
		return
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		l.http.Store(-1)
		return
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	if resp.StatusCode == http.StatusInsufficientStorage && !bytes.Contains(text, []byte(`"storage_low"`)) {
		l.http.Store(-1)
		return
	}
	l.http.Store(int64(resp.StatusCode))
	if resp.StatusCode == http.StatusCreated {
		l.acked.Store(id, true)
		l.writes[0].Add(1)
	}
}

func (l *load) publish(ctx context.Context, js jetstream.JetStream, n int) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	id := fmt.Sprintf("nats-%d", n)
	_, err := js.Publish(ctx, "edict.log."+defaultProject+".node."+id, nodeUpdated(id, n))
	var api *jetstream.APIError
	switch {
	case err == nil:
		l.acked.Store(id, true)
		l.writes[1].Add(1)
		l.native.Store(0)
	case errors.As(err, &api):
		l.native.Store(int64(api.ErrorCode))
	default:
		l.native.Store(-1)
	}
}

var fill = strings.Repeat("x", 200)

func nodeUpdated(id string, n int) []byte {
	b := fmt.Appendf(nil, `{"id":"%s","type":"node_updated","project_id":"%s","node_id":"%s","labels":{"role":"web","n":"%d"`, uuid.New(), defaultProject, id, n)
	for i := range 8 {
		b = fmt.Appendf(b, `,"fill-%d":"%s"`, i, fill)
	}
	return append(b, `},"addresses":[]}`...)
}

// flows waits until both producers are acknowledged again.
func (l *load) flows(t *testing.T) {
	t.Helper()
	http, native := l.writes[0].Load(), l.writes[1].Load()
	require.True(t, waitFor(30*time.Second, func() bool {
		return l.writes[0].Load() > http+20 && l.writes[1].Load() > native+20
	}), "writes work: last HTTP %d, NATS %d", l.http.Load(), l.native.Load())
}

// readsGoOn wants a node's state, a list and the plane's status answered.
func (p *process) readsGoOn() {
	p.t.Helper()
	p.state("reader")
	p.listsGoOn()
}

// listsGoOn leaves out what waits for the fold: a read model that met the full
// disk, too, cannot catch up with what the log took last.
func (p *process) listsGoOn() {
	p.t.Helper()
	p.do("GET", "/v1/projects/"+defaultProject+"/nodes?limit=5", nil, 200)
	var last int
	require.True(p.t, waitFor(20*time.Second, func() bool {
		resp, err := http.Get("http://" + p.http + "/v1/status")
		require.NoError(p.t, err)
		defer resp.Body.Close()
		last = resp.StatusCode
		// While the log's server starts again, nobody can say where the log ends.
		return last != http.StatusServiceUnavailable
	}), "the status is 503 for good")
	require.Equal(p.t, http.StatusOK, last)
}

// listen opens a node's stream and counts its events until the test ends.
func (p *process) listen(node string) *atomic.Int64 {
	p.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.http+"/v1/nodes/"+node+"/events", nil)
	require.NoError(p.t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(p.t, err)
	require.Equal(p.t, 200, resp.StatusCode)
	var events atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "event: policy_updated") {
				events.Add(1)
			}
		}
	}()
	p.t.Cleanup(func() { cancel(); resp.Body.Close(); <-ended })
	return &events
}

// serveOn starts a plane on a small disk, with one policy and one node that
// listens.
func serveOn(t *testing.T, d smallDisk, args ...string) (p *process, events *atomic.Int64) {
	bin, err := edict()
	require.NoError(t, err)
	p = &process{t: t, bin: bin, data: filepath.Join(d.dir, "data"), args: args, http: anyPort, nats: anyPort}
	p.start()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("what serve printed:\n%s", p.log.String())
		}
	})
	p.do("PUT", "/v1/projects/"+defaultProject+"/nodes/reader", map[string]any{"labels": map[string]string{"role": "reader"}, "addresses": []string{}}, 201)
	events = p.listen("reader")
	p.author("before")
	require.True(t, waitFor(10*time.Second, func() bool { return events.Load() == 1 }), "the first policy is sent")
	return p, events
}

// author makes a policy that the listening node matches.
func (p *process) author(slug string) {
	p.t.Helper()
	p.do("POST", "/v1/projects/"+defaultProject+"/policies", map[string]any{
		"slug": slug, "display_name": slug, "selector": map[string]string{"source": "role=reader", "destination": "role=reader"},
		"rules": []any{map[string]any{"action": "allow", "protocol": "any", "source_cidr": "10.0.0.0/8", "destination_cidr": "10.0.0.0/8"}},
	}, 201)
}

// audit kills the plane, starts it again, and wants every acknowledged write,
// and a read model that equals a replay.
func (l *load) audit(t *testing.T) {
	t.Helper()
	l.p.kill() // while they write
	l.stop()
	l.p.start()
	_, code := l.p.run("replay", "--verify")
	require.Zero(t, code, "the read model equals a replay")
	present := map[string]bool{}
	for cursor := ""; ; {
		var page struct {
			Items []struct {
				ID string `json:"id"`
			} `json:"items"`
			Next *string `json:"next_cursor"`
		}
		require.NoError(t, json.Unmarshal(l.p.do("GET", "/v1/projects/"+defaultProject+"/nodes?limit=500&cursor="+cursor, nil, 200), &page))
		for _, n := range page.Items {
			present[n.ID] = true
		}
		if page.Next == nil {
			break
		}
		cursor = *page.Next
	}
	n := 0
	l.acked.Range(func(id, _ any) bool {
		n++
		if !present[id.(string)] {
			t.Errorf("the write of %s was acknowledged and is gone", id)
		}
		return true
	})
	t.Logf("%d writes acknowledged, all there; %d nodes", n, len(present))
	require.True(t, waitFor(20*time.Second, func() bool {
		s := l.p.status("")
		for _, part := range s.Partitions {
			if part.Publisher == "" || part.Upto < s.Head {
				return false
			}
		}
		return true
	}), "everything is sent")
}

// TestADiskThatFillsUpRefusesWritesAndHeals goes down the levels of --min-free:
// authors, then whoever writes to the log directly, then nothing is left.
func TestADiskThatFillsUpRefusesWritesAndHeals(t *testing.T) {
	t.Parallel()
	const keep = 32
	d := newSmallDisk(t, 224*mib)
	p, events := serveOn(t, d, "--min-free", fmt.Sprintf("%dMiB", keep))
	l := &load{p: p}
	l.run(t.Context(), t)
	l.flows(t)

	d.leave(keep * mib * 3 / 4)
	require.True(t, waitFor(10*time.Second, func() bool { return l.http.Load() == 507 }), "authors are refused: %d", l.http.Load())
	require.Zero(t, l.native.Load(), "the log is open still")
	p.readsGoOn()
	var problem struct{ Code, Detail string }
	require.NoError(t, json.Unmarshal(p.do("DELETE", "/v1/projects/"+defaultProject+"/nodes/reader", nil, 507), &problem))
	require.Equal(t, "storage_low", problem.Code)
	require.Contains(t, problem.Detail, "--min-free 32MiB")

	d.leave(keep * mib / 4)
	require.True(t, waitFor(10*time.Second, func() bool { return l.native.Load() == accountFull }), "producers are refused: %d", l.native.Load())
	p.readsGoOn()
	d.leave(0)
	p.readsGoOn()
	require.Equal(t, int64(accountFull), l.native.Load(), "they get an answer, not silence")
	require.EqualValues(t, 507, l.http.Load())

	d.clear()
	l.flows(t)
	p.author("after")
	require.True(t, waitFor(10*time.Second, func() bool { return events.Load() == 2 }), "the same stream goes on")
	require.False(t, p.ended(), "without a restart")
	l.audit(t)
	d.leave(0)
	p.terminate() // a full disk does not hold up who stops the plane
}

// TestALogThatMetAFullDiskHeals takes all space at once, under load and
// without --min-free, so that the log's store meets the end of the disk.
func TestALogThatMetAFullDiskHeals(t *testing.T) {
	t.Parallel()
	d := newSmallDisk(t, 160*mib)
	p, events := serveOn(t, d, "--min-free", "0")
	l := &load{p: p}
	l.run(t.Context(), t)
	rounds := upTo(1, 2)
	for round := range rounds {
		l.flows(t)
		d.leave(0)
		require.True(t, waitFor(20*time.Second, func() bool { return l.native.Load() == accountFull }), "producers are refused: %d", l.native.Load())
		p.listsGoOn()
		require.True(t, waitFor(20*time.Second, func() bool { return l.http.Load() == 507 }), "authors are refused: %d", l.http.Load())
		p.listsGoOn()
		d.clear()
		l.flows(t)
		p.author(fmt.Sprintf("after-%d", round))
		require.True(t, waitFor(10*time.Second, func() bool { return events.Load() == int64(round)+2 }), "the same stream goes on")
	}
	require.False(t, p.ended(), "without a restart by hand")
	l.audit(t)
	p.kill() // what it printed is whole once it has ended
	require.GreaterOrEqual(t, strings.Count(p.log.String(), "restarted the log's server"), rounds)
}

// TestAReadModelThatMetAFullDiskGoesOn fills the disk until the read model's
// own files find no room, in the middle of its write-ahead log.
func TestAReadModelThatMetAFullDiskGoesOn(t *testing.T) {
	t.Parallel()
	d := newSmallDisk(t, 48*mib)
	waiting, clear := make(chan struct{}, 1), make(chan struct{})
	opt := projector.Options{Partitions: 4, Created: time.Unix(1, 0), Headroom: func() bool { return d.free() > mib }, Full: func() {
		select {
		case waiting <- struct{}{}:
		default: // said already
		}
		<-clear
	}}
	p, err := projector.Open(filepath.Join(d.dir, "store"), opt)
	require.NoError(t, err)
	applied := make(chan error, 1)
	var last atomic.Uint64
	go func() {
		for n := 1; ; n++ {
			id := fmt.Sprintf("node-%d", n)
			m := streams.Message{
				Seq: uint64(n), Subject: "edict.log." + defaultProject + ".node." + id, Time: time.Unix(int64(n), 0), //nolint:gosec // small
				Body: nodeUpdated(id, n),
			}
			if err := p.Apply([]streams.Message{m}); err != nil || len(waiting) > 0 {
				applied <- err
				return
			}
			if last.Store(p.Applied()); n == 100 {
				d.leave(0) // the present write-ahead log has its space; the next one has none
			}
		}
	}()
	require.True(t, waitFor(30*time.Second, func() bool { return len(waiting) > 0 }), "the disk is full")
	p.Read(func(v *projector.View) { require.NotZero(t, v.Counts().Nodes, "readers go on") })
	d.clear()
	close(clear)
	require.NoError(t, <-applied)
	at := p.Applied()
	require.GreaterOrEqual(t, at, last.Load())
	before, err := p.Digest(t.Context())
	require.NoError(t, err)
	require.NoError(t, p.Close())
	p, err = projector.Open(filepath.Join(d.dir, "store"), opt)
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	after, err := p.Digest(t.Context())
	require.NoError(t, err)
	require.Equal(t, before, after)
	require.EqualValues(t, at, after.Seq)
	closed := p.Applied()
	d.leave(0)
	if err := p.Close(); err != nil { // it may find the last bytes it needs
		require.ErrorIs(t, err, syscall.ENOSPC)
	}
	d.clear()
	p, err = projector.Open(filepath.Join(d.dir, "store"), opt)
	require.NoError(t, err)
	require.Equal(t, closed, p.Applied())
	t.Logf("%d events; the disk was full after %d", at, last.Load())
}
