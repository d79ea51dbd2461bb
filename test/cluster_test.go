package test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/natscluster"
	"github.com/edictdev/edict/internal/test/oracle"
	"github.com/edictdev/edict/internal/test/proxy"
)

// cluster is NATS servers in this process, that keep everything as often as
// there are servers, and workers of the built binary on them.
type cluster struct {
	t        *testing.T
	url      string
	conn     *streams.Conn
	key      string
	replicas int // of everything that is kept
	ttl      time.Duration
	workers  []*process
}

// newCluster starts the servers; ttl is that of the workers' leases.
func newCluster(t *testing.T, servers int, ttl time.Duration) *cluster {
	t.Helper()
	c := &cluster{t: t, key: filepath.Join(t.TempDir(), "plane.pem"), ttl: ttl, replicas: servers}
	if servers == 1 {
		s, err := streams.StartServer(streams.ServerOptions{Dir: t.TempDir(), Listen: anyPort, Relaxed: true})
		require.NoError(t, err)
		t.Cleanup(s.Close)
		c.url = s.ClientURL()
	} else {
		c.url = natscluster.Start(t, servers).URL()
	}
	var err error
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
		t: c.t, bin: bin, data: c.t.TempDir(), http: anyPort, nats: c.url, clock: newClock(c.t),
		args:  append([]string{"--name", name, "--lease-ttl", c.ttl.String()}, args...),
		where: []string{"--nats", c.url, "--replicas", strconv.Itoa(c.replicas), "--signing-key", c.key},
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

// shares are how many partitions each worker publishes, by name, as p knows it,
// and "" for those nobody does.
func (p *process) shares() map[string]int {
	var s struct {
		Partitions []struct{ Publisher string }
	}
	require.NoError(p.t, json.Unmarshal(p.do("GET", "/v1/status", nil, 200), &s))
	out := map[string]int{}
	for _, x := range s.Partitions {
		out[x.Publisher]++
	}
	return out
}

// even reports whether so many workers publish all partitions, each as many as
// any other, or one more.
func (p *process) even(workers int) bool {
	p.t.Helper()
	shares := p.shares()
	if shares[""] > 0 || len(shares) != workers {
		return false
	}
	counts := slices.Sorted(maps.Values(shares))
	return counts[workers-1]-counts[0] <= 1
}

// divided waits until they do.
func (p *process) divided(workers int) {
	p.t.Helper()
	require.True(p.t, waitFor(30*time.Second, func() bool { return p.even(workers) }), "%v is no even division among %d", p.shares(), workers)
}

// changes is a story whose nodes and policies change all the time.
type changes struct {
	*story
	n int
}

// change makes one change through the worker at, and tells the oracle of it.
func (c *changes) change(at *process) {
	c.process = at
	c.n++
	switch node := "n" + strconv.Itoa(c.n*7%13); c.n % 4 {
	case 0:
		c.revise("even", "role=even", "role=odd", []oracle.Rule{tcp(1 + c.n)})
	case 1:
		c.label(node, map[string]string{"role": "even", "n": strconv.Itoa(c.n)})
	case 2:
		c.revise("all", "role", "role=nobody", []oracle.Rule{tcp(1 + c.n), tcp(2 + c.n)})
	default:
		c.label(node, map[string]string{"role": "odd"})
	}
}

func newChanges(at *process) *changes {
	c := &changes{story: &story{process: at, policies: map[string]head{}}}
	for i := range 13 {
		c.label("n"+strconv.Itoa(i), map[string]string{"role": []string{"even", "odd"}[i%2]})
	}
	c.create("even", "role=even", "role=nobody", []oracle.Rule{tcp(80)})
	c.create("all", "role", "role=nobody", []oracle.Rule{tcp(443)})
	return c
}

// TestOthersTakeOverWhatAKilledPausedOrCutOffWorkerPublishes holds promises 2, 4 and
// 5 on a cluster: one worker is killed, another sleeps through the end of its
// lease and wakes up, and is cut off from the server and comes back, and all the
// while policies and nodes change. Who listens hears everything at least once, and
// never two things under one id.
func TestOthersTakeOverWhatAKilledPausedOrCutOffWorkerPublishes(t *testing.T) {
	for _, servers := range []int{1, 3}[:upTo(1, 2)] {
		t.Run("on "+strconv.Itoa(servers), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, servers, 2*time.Second)
			stays, dies := c.work(), c.work()
			first, _, _ := strings.Cut(c.url, ",")
			wired := proxy.New(t, strings.TrimPrefix(first, "nats://"), 1)
			if servers == 1 { // of a cluster, a client goes on with the servers it has heard of
				c.url = "nats://" + wired.Addr()
			}
			sleeps := c.work()
			tr := watchTrail(t, c.conn)
			s := newChanges(dies)
			stays.divided(3)
			until := func(what string, done func() bool) {
				t.Helper()
				began := time.Now()
				require.True(t, waitFor(30*time.Second, func() bool {
					s.change(stays)
					pauseFor(t.Context(), upTo(60*time.Millisecond, 0))
					return done()
				}), "%s", what)
				t.Logf("%s after %v, %d changes", what, time.Since(began).Round(time.Millisecond), s.n)
			}
			for range upTo(5, 20) {
				for _, at := range []*process{stays, dies, sleeps} {
					s.change(at)
				}
			}
			dies.kill()
			until("the others publish what the killed one did", func() bool { return stays.even(2) })
			sleeps.signal(syscall.SIGSTOP)
			until("one publishes everything", func() bool { return stays.even(1) })
			sleeps.signal(syscall.SIGCONT)
			until("the one that slept has its share again", func() bool { return stays.even(2) })
			if servers == 1 {
				wired.Become(proxy.Blackhole)
				until("one publishes everything, the other being cut off", func() bool { return stays.even(1) })
				wired.Become(proxy.Well)
				until("the one that was cut off has its share again", func() bool { return stays.even(2) })
			}
			dies.start()
			until("the killed one is back", func() bool { return stays.even(3) })
			for _, at := range c.workers {
				s.change(at)
				at.announced()
			}
			tr.tells(t, &s.plane)
			tr.sound(t)
			for _, at := range c.workers {
				at.equalsOracle(&s.plane)
				at.terminate()
			}
		})
	}
}
