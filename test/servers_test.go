package test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/natscluster"
	"github.com/edictdev/edict/internal/test/proxy"
	"github.com/edictdev/edict/internal/test/watch"
)

var serverFaults = flag.Int("server.faults", 2, "how often something happens to a cluster under load: to one of its NATS servers, its disk or a worker")

// asServer has this binary be a NATS server instead of tests: its arguments.
const asServer = "EDICT_TEST_NATS_SERVER"

// natsServer is one NATS server in a process of its own.
type natsServer struct {
	Name, Dir       string
	Client, Cluster string
	Routes          []string // where it dials the others

	clock *clock
	cmd   *exec.Cmd
	gone  chan struct{}
}

// beServer is that process. It ends when its parent does.
func beServer(text string) {
	var s natsServer
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		panic(err)
	}
	o := &server.Options{
		ServerName: s.Name, JetStream: true, StoreDir: s.Dir, SyncAlways: true, NoSigs: true, MaxPayload: 8 << 20,
		// Servers tell each other where others are: nowhere, so that they take the ways that can be cut.
		Cluster: server.ClusterOpts{Name: "edict", NoAdvertise: true, Advertise: "127.0.0.1:1", PoolSize: -1},
	}
	o.Host, o.Port = hostPort(s.Client)
	o.Cluster.Host, o.Cluster.Port = hostPort(s.Cluster)
	for _, r := range s.Routes {
		o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: r})
	}
	run, err := server.NewServer(o)
	if err != nil {
		panic(err)
	}
	if name := os.Getenv("EDICT_TEST_NATS_LOG"); name != "" {
		o.LogFile = name
		run.ConfigureLogger()
	}
	run.Start()
	run.WaitForShutdown()
}

func hostPort(addr string) (host string, port int) {
	a, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		panic(err)
	}
	return a.IP.String(), a.Port
}

func (s *natsServer) start(t *testing.T) {
	t.Helper()
	text, err := json.Marshal(s)
	require.NoError(t, err)
	s.cmd = exec.Command(os.Args[0])
	s.cmd.Env = slices.Concat(os.Environ(), []string{asServer + "=" + string(text)}, s.clock.env())
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, s.cmd.Start())
	cmd, gone := s.cmd, make(chan struct{})
	s.gone = gone
	go func() { _ = cmd.Wait(); close(gone) }() // how it ended is no matter
}

func (s *natsServer) kill() {
	_ = s.cmd.Process.Kill() // fails when it has ended
	<-s.gone
}

// natsCluster is three such servers, and a way between each two that can be cut.
type natsCluster struct {
	*cluster
	processes []*natsServer
	ways      map[[2]int]*proxy.Proxy
}

// newNATSCluster starts them with strict durability.
func newNATSCluster(t *testing.T, ttl time.Duration) *natsCluster {
	t.Helper()
	const n = 3
	c := &natsCluster{cluster: &cluster{t: t, key: filepath.Join(t.TempDir(), "plane.pem"), ttl: ttl, replicas: n}, ways: map[[2]int]*proxy.Proxy{}}
	free := natscluster.Free(t, 2*n)
	var urls []string
	for i := range n {
		s := &natsServer{Name: fmt.Sprint("nats-", i), Dir: t.TempDir(), Client: free[2*i].String(), Cluster: free[2*i+1].String(), clock: newClock(t)}
		c.processes, urls = append(c.processes, s), append(urls, "nats://"+s.Client)
	}
	for i, s := range c.processes {
		for j, other := range c.processes {
			if i != j {
				way := proxy.New(t, other.Cluster, uint64(n*i+j)) //nolint:gosec // small
				c.ways[[2]int{i, j}] = way
				s.Routes = append(s.Routes, way.Addr())
			}
		}
	}
	for _, s := range c.processes {
		s.start(t)
		t.Cleanup(func() {
			_ = s.cmd.Process.Signal(syscall.SIGCONT)
			s.kill()
		})
	}
	c.url = strings.Join(urls, ",")
	require.True(t, waitFor(60*time.Second, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		conn, err := streams.Connect(ctx, streams.ConnectOptions{URL: c.url, Replicas: n})
		if err == nil {
			_, err = streams.OpenLog(ctx, conn, streams.LogOptions{Partitions: 4})
			conn.Close()
		}
		return err == nil
	}), "the servers do not agree on a leader")
	signer, err := artifact.GenerateSigner()
	require.NoError(t, err)
	pem, err := signer.PEM()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(c.key, pem, 0o600))
	return c
}

// isolated has one server reach no other.
func (c *natsCluster) isolated(i int, now proxy.Ill) {
	for pair, way := range c.ways {
		if slices.Contains(pair[:], i) {
			way.Become(now)
		}
	}
}

// oneWay cuts what one server sends to the others, or what these send to it.
func (c *natsCluster) oneWay(i int, sends bool) {
	for pair, way := range c.ways {
		switch {
		case !slices.Contains(pair[:], i):
		case (pair[0] == i) == sends:
			way.Become(proxy.UpCut)
		default:
			way.Become(proxy.DownCut)
		}
	}
}

// ill is what can happen to a cluster, to the server or worker that a number draws. It goes
// on as long as hold takes.
type ill struct {
	name    string
	workers bool // it is one of theirs
	do      func(c *natsCluster, i int, hold func())
}

var ills = []ill{
	{"servers killed", false, func(c *natsCluster, i int, hold func()) {
		s := c.server(i)
		s.kill()
		hold()
		s.start(c.t)
	}},
	{"servers cut off", false, func(c *natsCluster, i int, hold func()) {
		c.isolated(i%len(c.processes), []proxy.Ill{proxy.Blackhole, proxy.Refused}[i%2])
		hold()
		c.isolated(i%len(c.processes), proxy.Well)
	}},
	{"servers paused", false, func(c *natsCluster, i int, hold func()) {
		s := c.server(i)
		require.NoError(c.t, s.cmd.Process.Signal(syscall.SIGSTOP))
		hold()
		require.NoError(c.t, s.cmd.Process.Signal(syscall.SIGCONT))
	}},
	{"servers cut off one way", false, func(c *natsCluster, i int, hold func()) {
		c.oneWay(i%len(c.processes), i%2 == 0)
		hold()
		c.isolated(i%len(c.processes), proxy.Well)
	}},
	{"disks slow", false, func(c *natsCluster, i int, hold func()) {
		stop := slowDisk(c.t, c.server(i).Dir)
		hold()
		stop()
	}},
	{"workers killed", true, func(c *natsCluster, i int, hold func()) {
		w := c.workers[i%len(c.workers)]
		w.kill()
		hold()
		w.start()
	}},
	{"workers paused", true, func(c *natsCluster, i int, hold func()) {
		w := c.workers[i%len(c.workers)]
		w.signal(syscall.SIGSTOP)
		hold()
		w.signal(syscall.SIGCONT)
	}},
}

func (c *natsCluster) server(i int) *natsServer { return c.processes[i%len(c.processes)] }

// suffers does one of the ills, and ends it. A worker suffers where there is another one.
func (c *natsCluster) suffers(r *rand.Rand, round int) (what string) {
	all := slices.Clone(ills)
	if *clockOverlay != "" {
		all = append(all, stepped...)
	}
	if len(c.workers) == 1 {
		all = slices.DeleteFunc(all, func(x ill) bool { return x.workers })
	}
	x := all[round%len(all)]
	x.do(c, r.IntN(6), func() { time.Sleep(time.Duration(500+r.IntN(upTo(1000, 2500))) * time.Millisecond) })
	return x.name
}

// slowDisk has a disk sync more than it can, until stop: each sync of others waits for
// those.
func slowDisk(t *testing.T, dir string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all errgroup.Group
	for range 4 {
		f, err := os.CreateTemp(dir, "filler-")
		require.NoError(t, err)
		all.Go(func() error {
			defer os.Remove(f.Name())
			defer f.Close()
			block := make([]byte, 1<<20)
			for ctx.Err() == nil {
				if _, err := f.WriteAt(block, 0); err != nil {
					return err
				}
				if err := f.Sync(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return func() {
		cancel()
		require.NoError(t, all.Wait())
	}
}

// TestNATSServersThatAreKilledPausedAndIsolatedLoseNothing does that to the servers
// that keep the log, in processes of their own that sync every write, has their disk be slow,
// and kills and pauses workers where there are more than one, while authors
// write over HTTP, a producer over NATS, and nodes follow. What either was answered is
// held against the log, and what the fold said of each event against an oracle.
func TestNATSServersThatAreKilledPausedAndIsolatedLoseNothing(t *testing.T) {
	if *serverFaults == 0 {
		return
	}
	t.Parallel()
	c := newNATSCluster(t, 2*time.Second)
	for range upTo(1, 3) {
		c.work()
	}
	c.workers[0].divided(len(c.workers))
	if w := c.workers[0]; w.clock != nil {
		w.keepsTimeBy(w.clock)
	}
	base := func(i int) string { return "http://" + c.workers[i%len(c.workers)].http }
	nodes := []string{"n0-a", "n0-b", "n1-a", "n1-b"}[:upTo(2, 4)]
	var authors []*author
	for i := range len(nodes) / 2 {
		authors = append(authors, newAuthor(fmt.Sprint("author-", i), *crashSeed+uint64(i), nodes[2*i:2*i+2], func() string { return base(i) }))
	}
	l := startWriting(t.Context(), upTo(15*time.Millisecond, 3*time.Millisecond), authors...)
	o := produce(t, c.url, "producer", "p-a", "p-b")
	require.True(t, waitFor(20*time.Second, func() bool { return o.acked() > 8 }), "the producer's nodes are there")
	rec := record(t, c.url, watch.Keys(c.workers[0].publicKeys()), append(nodes, "p-a", "p-b"), base)
	rec.wrote = append(rec.wrote, o)
	r := rand.New(rand.NewPCG(*crashSeed, 11))
	suffered := map[string]int{}
	for round := range *serverFaults {
		suffered[c.suffers(r, round)]++
		written, produced := l.acked.Load(), o.acked()
		require.True(t, waitFor(60*time.Second, func() bool { return l.acked.Load() > written+10 && o.acked() > produced+10 }), "writing goes on after %v", suffered)
	}
	l.end()
	o.finish()
	l.mark(t.Context())
	facts := l.facts(t)
	o.facts(facts)
	run := rec.judge(facts, c.workers, l.lost)
	codes := map[string]int{}
	for _, e := range run.Log {
		codes[e.Rejected]++
	}
	t.Logf("seed %d: %s; %d events, %d writes and %d publications acknowledged, verdicts %v", *crashSeed, tally(suffered), len(run.Log), l.acked.Load(), len(o.acks), codes)
	for _, code := range []string{"", "subject_mismatch", "node_id_taken", "invalid", "unknown_type", "undecodable", "revision_conflict", "stale_event"} {
		require.NotZero(t, codes[code], "the producer sends what deserves %q", code)
	}
}
