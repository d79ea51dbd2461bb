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
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/fault"
	"github.com/edictdev/edict/test/check"
	"github.com/edictdev/edict/test/watch"
)

var (
	kills     = flag.Int("kills", 6, "how often a plane under load is killed with kill -9")
	crashSeed = flag.Uint64("crash.seed", 1, "what the moments are drawn from")
)

// struck is the path of the binary with fault points in it, built once.
var struck = sync.OnceValues(func() (string, error) {
	bin, err := edict()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(filepath.Dir(bin), "struck")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	return build(dir, "-tags", "faults")
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
	points := fault.Points()
	d := death{point: points[round/2%len(points)], pass: 1 + r.IntN(30), after: 2 * time.Second}
	if seldom := []fault.Point{fault.LeaseBefore, fault.LeaseAfter, fault.CheckpointBefore, fault.CheckpointAfter}; slices.Contains(seldom, d.point) {
		d.pass = 1 + r.IntN(2)
	}
	return d
}

// dies starts p and sees to its end. It says what ended it.
func (d death) dies(p *process) string {
	p.env = nil
	if d.point != "" {
		p.env = []string{fmt.Sprintf("EDICT_FAULT=%s:%d", d.point, d.pass)}
	}
	p.launch()
	p.env = nil
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
// follow over SSE and NATS; afterwards nothing acknowledged is lost, states
// equal the oracle's, and what nodes met keeps every promise.
func TestNothingAcknowledgedIsLost(t *testing.T) {
	bin, err := struck()
	require.NoError(t, err)
	p := serveBinary(t, bin, "--snapshot-every", "30", "--lease-ttl", "2s")
	keys := watch.Keys(p.publicKeys())
	base := func() string { return "http://" + p.http } // restarts keep it
	at := base()
	r := rand.New(rand.NewPCG(*crashSeed, 3))
	var authors []*author
	var nodes []string
	for i := range 3 {
		mine := []string{fmt.Sprintf("n%d-a", i), fmt.Sprintf("n%d-b", i)}
		nodes = append(nodes, mine...)
		authors = append(authors, newAuthor(fmt.Sprintf("author-%d", i), *crashSeed+uint64(i), mine, func() string { return at }))
	}
	l := startWriting(t.Context(), 3*time.Millisecond, authors...)
	rec := record(t, "nats://"+p.nats, keys, nodes, func(int) string { return at })
	deaths := map[string]int{}
	for i := range *kills {
		if i == 0 {
			p.kill()
			deaths["at a moment"]++
			continue
		}
		deaths[drawDeath(r, i).dies(p)]++
	}
	p.start()
	written := l.acked.Load()
	require.True(t, waitFor(20*time.Second, func() bool { return l.acked.Load() > written+20 }), "writing goes on")
	l.end()
	facts := l.facts(t)
	p.announced()
	rec.settled()
	run, log := rec.run()
	for _, n := range nodes {
		run.States[n], _ = p.state(n)
		want, _ := facts.State(n)
		require.Equal(t, want, run.States[n], "what was acknowledged stands")
	}
	require.Empty(t, l.lost(log), "acknowledged, and not in the log")
	broken, err := check.Judge(run)
	require.NoError(t, err)
	require.Empty(t, broken, "seed %d", *crashSeed)
	_, code := p.run("replay", "--verify")
	require.Zero(t, code, "the store equals a replay")
	t.Logf("seed %d: %d kills, %d events, %d writes acknowledged, %d sessions; ended %s",
		*crashSeed, *kills, len(log), l.acked.Load(), sessions(run), tally(deaths))
}

func sessions(run *check.Run) (n int) {
	for _, w := range run.Watchers {
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
