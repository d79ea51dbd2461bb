package test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/relay"
	"github.com/edictdev/edict/streams"
	"github.com/edictdev/edict/test/oracle"
)

// cluster is NATS servers in this process, that keep everything as often as
// there are servers, and workers of the built binary on them.
type cluster struct {
	t       *testing.T
	url     string
	servers []*streams.Server
	conn    *streams.Conn
	key     string
	ttl     time.Duration
	workers []*process
}

func newCluster(t *testing.T, servers int, ttl time.Duration) *cluster {
	t.Helper()
	c := &cluster{t: t, key: filepath.Join(t.TempDir(), "plane.pem"), ttl: ttl}
	var err error
	if servers == 1 {
		s, serr := streams.StartServer(streams.ServerOptions{Dir: t.TempDir(), Listen: anyPort, Relaxed: true})
		c.servers, err = []*streams.Server{s}, serr
	} else {
		c.servers, err = streams.StartCluster(t.Context(), servers, t.TempDir(), streams.ServerOptions{Relaxed: true})
	}
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, s := range c.servers {
			s.Close()
		}
	})
	c.url = streams.ClusterURL(c.servers)
	c.conn, err = streams.Connect(t.Context(), streams.ConnectOptions{URL: c.url, Replicas: servers})
	require.NoError(t, err)
	t.Cleanup(c.conn.Close)
	signer, err := artifact.GenerateSigner()
	require.NoError(t, err)
	pem, err := signer.PEM()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(c.key, pem, 0o600))
	return c
}

// work starts one more worker.
func (c *cluster) work(args ...string) *process {
	c.t.Helper()
	bin, err := edict()
	require.NoError(c.t, err)
	name := "w" + strconv.Itoa(len(c.workers)+1)
	p := &process{
		t: c.t, bin: bin, data: c.t.TempDir(), http: anyPort, nats: c.url,
		args:  append([]string{"--name", name, "--lease-ttl", c.ttl.String()}, args...),
		where: []string{"--nats", c.url, "--replicas", strconv.Itoa(len(c.servers)), "--signing-key", c.key},
	}
	c.workers = append(c.workers, p)
	p.start()
	c.t.Cleanup(func() {
		p.signal(syscall.SIGCONT)
		p.kill()
		if c.t.Failed() {
			c.t.Logf("what %s printed:\n%s", name, p.log.String())
		}
	})
	return p
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) } // fails when it has ended

// shares are how many partitions each live worker announces, by name, as p
// knows it, and "" for those nobody does.
func (p *process) shares() map[string]int {
	var s struct {
		Partitions []struct{ Worker, Mode string }
	}
	require.NoError(p.t, json.Unmarshal(p.do("GET", "/v1/status", nil, 200), &s))
	out := map[string]int{}
	for _, x := range s.Partitions {
		if x.Mode != "follow" {
			x.Worker = ""
		}
		out[x.Worker]++
	}
	return out
}

// divided waits until so many workers announce all partitions evenly, and
// returns how long that took.
func (p *process) divided(workers int) time.Duration {
	p.t.Helper()
	began := time.Now()
	var shares map[string]int
	ok := waitFor(30*time.Second, func() bool {
		shares = p.shares()
		if shares[""] > 0 || len(shares) != workers {
			return false
		}
		least, most := 1<<30, 0
		for _, n := range shares {
			least, most = min(least, n), max(most, n)
		}
		return most-least <= 1
	})
	require.True(p.t, ok, "%v is no even division among %d", shares, workers)
	return time.Since(began)
}

var (
	_ = fmt.Sprint
	_ = slices.Sort[[]int]
	_ sync.Mutex
	_ = strings.Cut
	_ = context.Background
	_ relay.Fence
	_ oracle.Row
)

func TestExplore(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			c := newCluster(t, n, 2*time.Second)
			t0 := time.Now()
			a := c.work()
			t.Log("first", time.Since(t0))
			t0 = time.Now()
			b := c.work()
			t.Log("second", time.Since(t0))
			t0 = time.Now()
			d := c.work()
			t.Log("third", time.Since(t0))
			t.Log("divided 3", a.divided(3), a.shares())
			d.kill()
			t.Log("killed: divided 2", a.divided(2))
			b.signal(syscall.SIGSTOP)
			t.Log("paused: divided 1", a.divided(1))
			b.signal(syscall.SIGCONT)
			t.Log("woken: divided 2", a.divided(2))
			d.start()
			t.Log("restarted: divided 3", a.divided(3))
			b.terminate()
			t.Log("stopped: divided 2", a.divided(2))
			a.terminate()
			d.terminate()
			t.Log(a.log.String())
			t.Log(b.log.String())
			t.Log(d.log.String())
		})
	}
}
