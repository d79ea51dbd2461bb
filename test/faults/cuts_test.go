package faults

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/proxy"
)

var (
	cutSeeds = flag.Int("cut.seeds", 1, "seeds of schedules of cuts")
	cutFirst = flag.Uint64("cut.first", 1, "the first of them")
)

// TestCutsBreakNoPromise puts a proxy between worker and server, and one
// between nodes and worker, and lets them drop, delay, truncate, swallow and
// reset while a history is written.
func TestCutsBreakNoPromise(t *testing.T) {
	for seed := *cutFirst; seed < *cutFirst+uint64(*cutSeeds); seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { cuts(t, seed) })
	}
}

func cuts(t *testing.T, seed uint64) {
	p := newPlane(t, seed)
	history := steps(seed)
	var watched []string
	for _, n := range nodesOf(history) {
		if n != "gone" {
			watched = append(watched, n)
			p.publish(register(n, ""))
		}
	}
	back := proxy.New(t, strings.TrimPrefix(p.server.ClientURL(), "nats://"), seed)
	w := p.start(t.TempDir(), casting{url: "nats://" + back.Addr()})
	front := proxy.New(t, strings.TrimPrefix(w.http.URL, "http://"), seed+1)
	p.eventually("all is owned", func() bool { return w.announced(1) })
	var native []*follower
	for _, n := range watched {
		p.follower(n).open(t.Context(), w, "http://"+front.Addr())
	}
	sse := p.followers
	for _, n := range watched {
		native = append(native, p.follower(n))
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan string)
	go func() { done <- schedule(ctx, seed, back, front) }()
	r := rand.New(rand.NewPCG(seed, 6))
	var at uint64
	for rest := history; len(rest) > 0; {
		n := min(len(rest), 1+r.IntN(4))
		at = p.publish(rest[:n]...)
		rest = rest[n:]
		native[r.IntN(len(native))].ask(w)
		sleep(ctx, time.Duration(r.IntN(60))*time.Millisecond)
	}
	cancel()
	t.Log(<-done)
	p.eventually("all is published when the cuts have ended", func() bool { return w.announced(at) })
	for i, f := range sse {
		p.eventually(f.Node+" hears the last word", func() bool { return p.hasHeard(f) })
		f.cut()
		p.eventually(f.Node+" is answered", func() bool { return native[i].Ask(w.http.URL, time.Second) == nil })
	}
	w.finish("the worker", watched)
	require.Empty(t, p.verdict(), "seed %d", seed)
	w.stop()
}

// schedule does ill to both until ctx ends, and says how often.
func schedule(ctx context.Context, seed uint64, back, front *proxy.Proxy) string {
	r := rand.New(rand.NewPCG(seed, 7))
	counts := map[proxy.Ill]int{}
	for ctx.Err() == nil {
		to := []*proxy.Proxy{back, front}[r.IntN(2)]
		what := proxy.Ill(1 + r.IntN(proxy.Ills-1))
		counts[what]++
		to.Become(what)
		sleep(ctx, time.Duration(5+r.IntN(80))*time.Millisecond)
		to.Become(proxy.Well)
		sleep(ctx, time.Duration(r.IntN(40))*time.Millisecond)
	}
	back.Become(proxy.Well)
	front.Become(proxy.Well)
	return fmt.Sprintf("seed %d: %v", seed, counts)
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
