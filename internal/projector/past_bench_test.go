package projector

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// restless is a log on top of a fleet in which, of every ten events, six give a
// node other labels, three give a policy other rules, and one another selector.
// Node n0 keeps its labels.
func restless(b *testing.B, j *journal, nodes, events int) []streams.Message {
	done := len(j.msgs)
	heads := map[int]int{}
	for i := range events {
		at := 4_000_000 + done + i
		if i%10 < 6 {
			n := 1 + i%(nodes-1)
			j.add(update(b, at, 1, fmt.Sprintf("n%d", n), "role", fmt.Sprintf("r%d", (n+at)%20), "set", fmt.Sprintf("s%d", at%50)))
			continue
		}
		p := (i/10*4 + i%10 - 6) % 60
		parent := 1000 + p
		if heads[p] != 0 {
			parent = heads[p]
		}
		role := p % 20
		if i%10 == 9 {
			role = at % 20
		}
		heads[p] = at
		j.add(revise(b, at, 1, 1000+p, at, parent, fmt.Sprintf("p%d", p), fmt.Sprintf("role=r%d", role), 80+at%1000))
	}
	return j.msgs[done:]
}

func openBench(b *testing.B) *Projector {
	p, err := Open(b.TempDir(), Options{Partitions: 64, Created: born, Base: testBase})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, p.Close()) })
	return p
}

// BenchmarkPast is what a resume costs after some events of others and of one's
// own.
func BenchmarkPast(b *testing.B) {
	const nodes = 10_000
	p, j := openBench(b), fleet(b, nodes, 50)
	apply(b, p, j.msgs)
	apply(b, p, restless(b, j, nodes, 10_000))
	head := p.Applied()
	for _, missed := range []uint64{0, 5, 1000, 10_000} {
		for _, n := range []policy.NodeID{"n0", "n7"} {
			b.Run(fmt.Sprintf("missed=%d/%s", missed, n), func(b *testing.B) {
				items := 0
				b.ReportAllocs()
				for b.Loop() {
					past, err := p.Past(n, policy.EndOf(testBase, head-missed), nil)
					require.NoError(b, err)
					items = len(past.Items)
				}
				b.ReportMetric(float64(items), "items")
			})
		}
	}
}

// BenchmarkPastOfOneWhoMoved is what a resume costs a node that had a hundred
// label sets since, while policies lost thousands.
func BenchmarkPastOfOneWhoMoved(b *testing.B) {
	const nodes = 1000
	p, j := openBench(b), fleet(b, nodes, 50)
	apply(b, p, j.msgs)
	head := p.Applied()
	for i := range 100 {
		restless(b, j, nodes, 100)
		j.add(update(b, 9_000_000+i, 1, "n0", "role", fmt.Sprintf("r%d", i%20), "set", fmt.Sprintf("x%d", i)))
	}
	apply(b, p, j.msgs[head:])
	b.ReportAllocs()
	for b.Loop() {
		_, err := p.Past("n0", policy.EndOf(testBase, head), nil)
		require.NoError(b, err)
	}
}

// BenchmarkStorm has 10,000 nodes resume after 10,000 events while the fold goes
// on, four at a time, and tells how long one of them takes.
func BenchmarkStorm(b *testing.B) {
	const nodes = 10_000
	p, j := openBench(b), fleet(b, nodes, 50)
	apply(b, p, j.msgs)
	apply(b, p, restless(b, j, nodes, 10_000))
	after := policy.EndOf(testBase, p.Applied()-10_000)
	var took []time.Duration
	for b.Loop() {
		b.StopTimer()
		more := restless(b, j, nodes, 20_000)
		folded := make(chan struct{})
		b.StartTimer()
		go func() {
			defer close(folded)
			apply(b, p, more)
		}()
		for folding := true; folding; {
			took = append(took, resumeAll(b, p, nodes, after)...)
			select {
			case <-folded:
				folding = false
			default:
			}
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
	b.ReportMetric(float64(took[len(took)*999/1000].Microseconds()), "p999-us")
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
}

// resumeAll resumes every node, four at a time.
func resumeAll(b *testing.B, p *Projector, nodes int, after policy.EventID) []time.Duration {
	const workers = 4
	took := make([]time.Duration, nodes)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < nodes; i += workers {
				began := time.Now()
				if _, err := p.Past(policy.NodeID(fmt.Sprintf("n%d", i)), after, nil); err != nil {
					b.Error(err)
				}
				took[i] = time.Since(began)
			}
		})
	}
	wg.Wait()
	return took
}

// BenchmarkTell is what edges cost the fold: relabelled nodes, and a policy that
// every node has.
func BenchmarkTell(b *testing.B) {
	const nodes = 10_000
	for _, wanted := range []bool{false, true} {
		b.Run(fmt.Sprintf("restless/told=%t", wanted), func(b *testing.B) {
			p, j := openBench(b), fleet(b, nodes, 50)
			apply(b, p, j.msgs)
			msgs := restless(b, j, nodes, b.N)
			p.Feed(forgetful{wanted})
			b.ReportAllocs()
			b.ResetTimer()
			apply(b, p, msgs)
		})
		b.Run(fmt.Sprintf("everybody/told=%t", wanted), func(b *testing.B) {
			p, j := openBench(b), fleet(b, nodes, 50)
			apply(b, p, j.msgs)
			require.NoError(b, p.Apply([]streams.Message{j.add(revise(b, 1, 1, 1, 1, 0, "all", "set", 1))}))
			done := len(j.msgs)
			for i := range b.N {
				j.add(revise(b, 3_000_000+i, 1, 1, 2+i, 1+i, "all", "set", 2+i%1000))
			}
			p.Feed(forgetful{wanted})
			b.ReportAllocs()
			b.ResetTimer()
			apply(b, p, j.msgs[done:])
		})
	}
}
