package test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/fault"
	"github.com/edictdev/edict/internal/test/binary"
	"github.com/edictdev/edict/internal/test/check"
	"github.com/edictdev/edict/internal/test/watch"
)

var (
	kills        = flag.Int("kills", 3, "how often a plane under load is killed with kill -9")
	clusterKills = flag.Int("cluster.kills", 2, "how often a worker of a cluster under load is")
	crashAuthors = flag.Int("crash.authors", 1, "how many write meanwhile")
	crashSeed    = flag.Uint64("crash.seed", 1, "what the moments are drawn from")
)

// struck is the path of the binary with fault points in it, built once.
var struck = sync.OnceValues(func() (string, error) {
	dir, err := binary.Folder()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "struck")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "edict")
	return bin, binary.Build("./cmd/edict", bin, "-tags", "faults")
})

// death is how one life of a process is to end.
type death struct {
	point fault.Point   // "": at a moment
	pass  int           // of the point
	after time.Duration // since the start; of a point that is not reached, the end of patience
}

func drawDeath(r *rand.Rand, round int) death {
	if round%2 == 0 {
		return death{after: time.Duration(r.IntN(600)) * time.Millisecond}
	}
	points := slices.DeleteFunc(fault.Points(), func(p fault.Point) bool { // no plane passes those by itself
		return strings.HasPrefix(string(p), "archive.") || strings.HasPrefix(string(p), "import.") || strings.HasPrefix(string(p), "origin.")
	})
	d := death{point: points[round/2%len(points)], pass: 1 + r.IntN(30), after: 2 * time.Second}
	switch d.point {
	case fault.LeaseBefore, fault.LeaseAfter:
		d.pass = 1 + r.IntN(2)
	case fault.CheckpointBefore, fault.CheckpointAfter, fault.KeyMade, fault.KeyRecorded, fault.KeyLogged, fault.KeyMove, fault.KeyMoved:
		d.pass = 1
	}
	return d
}

// dies starts p and sees to its end. It says what ended it.
func (d death) dies(p *process) string {
	p.env = nil
	if d.point != "" {
		p.env = []string{fmt.Sprintf("EDICT_FAULT=%s:%d", d.point, d.pass)}
	}
	ready := p.launch()
	p.env = nil
	if strings.HasPrefix(string(d.point), "checkpoint.") && p.becomesReady(ready, 10*time.Second) {
		p.run("snapshot", "create") // which the death of the plane cuts off
	}
	if strings.HasPrefix(string(d.point), "key.") && p.becomesReady(ready, 10*time.Second) {
		p.run("key", "rotate", "--transition", "1m") // likewise, unless a rotation is under way
	}
	select {
	case <-p.gone:
		return string(d.point)
	case <-time.After(d.after):
	}
	p.kill()
	if d.point != "" {
		return string(d.point) + " not reached"
	}
	return "at a moment"
}

// TestNothingAcknowledgedIsLost kills a plane under load again and again, at
// random moments and at named points. Authors write all the while, and nodes
// follow over SSE, NATS and by agents; afterwards nothing acknowledged is lost, states
// equal the oracle's, and what nodes met keeps every promise.
func TestNothingAcknowledgedIsLost(t *testing.T) {
	bin, err := struck()
	require.NoError(t, err)
	p := serveBinary(t, bin, "--lease-ttl", "2s")
	killed(t, "nats://"+p.nats, []*process{p}, *kills)
}

// TestNothingAcknowledgedIsLostOnACluster is the same on three NATS servers
// with three workers, of which one after the other is killed. Authors and nodes
// go to another worker each time.
func TestNothingAcknowledgedIsLostOnACluster(t *testing.T) {
	bin, err := struck()
	require.NoError(t, err)
	c := newCluster(t, 3, 2*time.Second)
	for range 3 {
		c.work().bin = bin
	}
	c.workers[0].divided(3)
	killed(t, c.url, c.workers, *clusterKills)
}

// killed has authors write and nodes follow while one of the workers after the
// other is killed, and judges what came of it.
func killed(t *testing.T, servers string, workers []*process, times int) {
	r := rand.New(rand.NewPCG(*crashSeed, 3))
	keys := watch.Keys(workers[0].publicKeys())
	var at []string
	for _, p := range workers {
		at = append(at, "http://"+p.http) // restarts keep it
	}
	var turn atomic.Int64
	base := func(i int) string { return at[(int(turn.Load())+i)%len(at)] }
	var authors []*author
	var nodes []string
	for i := range *crashAuthors {
		mine := []string{fmt.Sprintf("n%d-a", i), fmt.Sprintf("n%d-b", i)}
		nodes = append(nodes, mine...)
		authors = append(authors, newAuthor(fmt.Sprintf("author-%d", i), *crashSeed+uint64(i), mine, func() string { return base(i) }))
	}
	l := startWriting(t.Context(), 3*time.Millisecond, authors...)
	rec := record(t, servers, keys, nodes, base)
	deaths := map[string]int{}
	if len(workers) == 1 {
		cutRotation(t, workers[0], keys, deaths) // before some death leaves a rotation in its transition
	}
	for i := range times {
		p := workers[r.IntN(len(workers))]
		p.kill() // at the moment that the death before left
		deaths[drawDeath(r, i).dies(p)]++
		turn.Add(1)
		if len(workers) > 1 {
			p.start() // it is one of many, and the next one's turn
		}
	}
	if len(workers) == 1 {
		workers[0].kill()
		workers[0].start()
	}
	written := l.acked.Load()
	require.True(t, waitFor(30*time.Second, func() bool { return l.acked.Load() > written+20 }), "writing goes on")
	l.end()
	l.mark(t.Context())
	run := rec.judge(l.facts(t), workers, l.lost)
	t.Logf("seed %d: %d kills, %d events, %d writes acknowledged, %d sessions; ended %s",
		*crashSeed, times, len(run.Log), l.acked.Load(), sessions(run), tally(deaths))
}

// cutRotation kills a plane at every step of a rotation of its key: each start
// goes on from where the one before was cut off, and the last one is left
// alone.
func cutRotation(t *testing.T, p *process, first watch.Keys, deaths map[string]int) {
	t.Helper()
	for _, point := range []fault.Point{fault.KeyMade, fault.KeyRecorded, fault.KeyLogged, fault.KeyMove, fault.KeyMoved} {
		p.kill()
		before := deaths[string(point)]
		deaths[death{point: point, pass: 1, after: 10 * time.Second}.dies(p)]++
		require.Greater(t, deaths[string(point)], before, "it is killed at %s", point)
	}
	p.start()
	now := p.publicKeys()
	require.Len(t, now, 2, "the rotation that was recorded stands")
	require.Len(t, maps.Collect(func(yield func(string, []byte) bool) {
		for id, key := range now {
			if first[id] == nil && !yield(id, key) {
				return
			}
		}
	}), 1)
	audit, code := p.run("audit", "--after=0")
	require.Zero(t, code)
	for id := range now {
		if first[id] == nil {
			require.Equal(t, 1, strings.Count(audit, " to "+id), "the rotation is one line of the audit:\n%s", audit)
		}
	}
}

func sessions(run *check.Run) (n int) {
	for _, w := range run.Records {
		n += len(w.Sessions)
	}
	return n
}

func tally(deaths map[string]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(deaths)) {
		parts = append(parts, fmt.Sprintf("%s %d", k, deaths[k]))
	}
	return strings.Join(parts, ", ")
}
