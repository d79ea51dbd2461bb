package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// curve is what an event costs, and what the fold takes of memory, where there is
// more and more of something.
type curve struct {
	what  string
	sizes []int
	// matched: each of the n is a part of the one event's work. Else n are others, that it
	// should know nothing of.
	matched bool
	// grow has the fold take n of it, and returns the events to measure.
	grow func(e *env, t *touching, n int) (event func(i int) policy.Event, err error)
}

const (
	curveWarm   = 200 // events before the first that is timed
	curveBlocks = 5   // of events, each timed as a whole
	// A block lasts longer than what growing left to do in the background, and than from one
	// collection to the next: of fewer events it is chance whether they fall within it.
	curveEvents = 4_000
	// A curve is steeper than n log n when its exponent is larger by more than medians of one
	// run differ by.
	curveNoise = 0.05
)

var curves = []curve{
	{"nodes in the fleet", []int{1_000, 10_000, 100_000, 1_000_000}, false, func(_ *env, t *touching, n int) (func(int) policy.Event, error) {
		a := newAuthor(21)
		return movingNodes(a, n, 1_000), fillPoliciesAndNodes(t, a, 100, n, 1_000)
	}},
	{"policies in the project", []int{100, 1_000, 10_000, 75_000}, false, func(_ *env, t *touching, n int) (func(int) policy.Event, error) {
		a := newAuthor(22)
		return movingNodes(a, 1_000, max(1, n/3)), fillPoliciesAndNodes(t, a, n, 1_000, max(1, n/3))
	}},
	{"policies in the project, of which one is revised", []int{100, 1_000, 10_000, 75_000}, false, func(_ *env, t *touching, n int) (func(int) policy.Event, error) {
		a := newAuthor(23)
		apps := max(1, n/3)
		return func(i int) policy.Event {
			return a.revise(i*7%n, selecting(fmt.Sprintf("app=a%d", i*7%n%apps)), 1, n+i)
		}, fillPoliciesAndNodes(t, a, n, 1_000, apps)
	}},
	{"policies that match the node", []int{3, 10, 30, 100, 300}, true, func(_ *env, t *touching, n int) (func(int) policy.Event, error) {
		a := newAuthor(24)
		if err := t.fill(n, func(i int) policy.Event { return a.revise(i, selecting(fmt.Sprintf("alpha=beta,!set-%d", i)), 1, i) }); err != nil {
			return nil, err
		}
		event := func(i int) policy.Event { return a.node(0, labelled("alpha", "beta", "turn", fmt.Sprint(i))) }
		return event, t.fill(1, func(int) policy.Event { return event(-1) })
	}},
	{"events of each node before", []int{1, 10, 100, 300}, false, func(_ *env, t *touching, n int) (func(int) policy.Event, error) {
		a := newAuthor(25)
		moving := movingNodes(a, 1_000, 100)
		return moving, t.fill(n*1_000, moving)
	}},
	{"label sets of 100,000 nodes", []int{10, 1_000, 100_000}, false, func(e *env, t *touching, n int) (func(int) policy.Event, error) {
		a := newAuthor(26)
		nodes := e.scale(100_000)
		return movingNodes(a, nodes, n), fillPoliciesAndNodes(t, a, 100, nodes, n)
	}},
}

// movingNodes takes one node after the other to another of so many label sets.
func movingNodes(a *author, nodes, sets int) func(int) policy.Event {
	return func(i int) policy.Event {
		return a.node(i*7919%nodes, labelled("app", fmt.Sprintf("a%d", (i*7919%nodes+1+i/nodes)%sets), "env", "prod"))
	}
}

// fillPoliciesAndNodes has three policies for each label set, as far as there are so many.
func fillPoliciesAndNodes(t *touching, a *author, policies, nodes, sets int) error {
	if err := t.fill(policies, func(i int) policy.Event { return a.revise(i, selecting(fmt.Sprintf("app=a%d", i%sets)), 1, i) }); err != nil {
		return err
	}
	return t.fill(nodes, func(i int) policy.Event {
		return a.node(i, labelled("app", fmt.Sprintf("a%d", i%sets), "env", "prod"))
	})
}

// growthCurves measures each curve, and what more workers cost, and fits their exponents.
func growthCurves(ctx context.Context, e *env) (lines []line, err error) {
	for _, c := range curves {
		ls, err := c.measure(e)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.what, err)
		}
		lines = append(lines, ls...)
	}
	l, err := workersCurve(ctx, e)
	return append(lines, l), err
}

// point is what was measured at one size.
type point struct {
	n    int
	cost samples // CPU of an event, us
	heap float64 // MiB that the fold holds
}

func (c *curve) measure(e *env) ([]line, error) {
	var points []point
	for _, n := range c.sizes {
		if e.quick && n > 10_000 {
			continue
		}
		p, err := c.at(e, n)
		if err != nil {
			return nil, err
		}
		say("  %s, %s: %s us of CPU an event, %s MiB", c.what, grouped(int64(n)), short(p.cost.median()), short(p.heap))
		points = append(points, p)
	}
	cost := c.line("CPU", points, func(p point) float64 {
		if c.matched {
			return p.cost.median()
		}
		return p.cost.median() * float64(p.n)
	}, func(p point) string { return short(p.cost.median()) + " us an event" })
	heap := c.line("memory", points, func(p point) float64 { return p.heap }, func(p point) string { return short(p.heap) + " MiB" })
	return []line{cost, heap}, nil
}

// at grows a fold to a size and has it take some events, of which the CPU is counted: what
// others do to the machine hardly shows there.
func (c *curve) at(e *env, n int) (p point, err error) {
	dir := filepath.Join(e.dir, "store")
	before := held()
	born := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	fold, err := projector.Open(dir, projector.Options{Partitions: partitions, Created: born})
	if err != nil {
		return p, err
	}
	t := &touching{folding{Projector: fold, at: born}}
	defer func() { err = errors.Join(err, t.Close(), os.RemoveAll(dir)) }()
	event, err := c.grow(e, t, n)
	if err != nil {
		return p, err
	}
	fold.Feed(forgetful{})
	if _, err := t.time(curveWarm, func(i int) policy.Event { return event(i) }); err != nil {
		return p, err
	}
	p = point{n: n, heap: float64(held()-before) / (1 << 20)}
	for block := range curveBlocks {
		began := cpuSeconds()
		if _, err := t.time(curveEvents, func(i int) policy.Event { return event(curveWarm + block*curveEvents + i) }); err != nil {
			return p, err
		}
		p.cost = append(p.cost, (cpuSeconds()-began)*1e6/curveEvents)
	}
	return p, nil
}

// held is what is in use once garbage is collected.
func held() int64 {
	runtime.GC()
	runtime.GC() // what finalizers and pools let go of
	bytes, _ := heapNow()
	return int64(bytes)
}

// line fits the exponent of what all n cost.
func (c *curve) line(of string, points []point, all func(point) float64, says func(point) string) line {
	n, total, reference, texts := samples{}, samples{}, samples{}, []string{}
	for _, p := range points {
		x := float64(p.n)
		n, total = append(n, x), append(total, all(p))
		reference = append(reference, x*math.Log(x+1)) // of one, too, it is something
		texts = append(texts, grouped(int64(p.n))+": "+says(p))
	}
	limit := exponent(n, reference)
	l := &line{What: of + ", by " + c.what, Unit: "exponent", Value: exponent(n, total)}
	l.target(fmt.Sprintf("<= %s, which n log n has", short(limit)), l.Value <= limit+curveNoise)
	return *l.note("%s, by %s: %s", of, c.what, strings.Join(texts, "; "))
}

// exponent fits y = a * x^b by least squares of the logarithms.
func exponent(x, y samples) float64 {
	var sx, sy, sxx, sxy float64
	for i := range x {
		u, v := math.Log(x[i]), math.Log(math.Max(y[i], 1e-9))
		sx, sy, sxx, sxy = sx+u, sy+v, sxx+u*u, sxy+u*v
	}
	n := float64(len(x))
	return (n*sxy - sx*sy) / (n*sxx - sx*sx)
}

// workersCurve has one, two and four workers serve the same streams: none should cost
// more in sum than another, but for the fold, which each of them does.
func workersCurve(ctx context.Context, e *env) (line, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	var n, total samples
	var texts []string
	for _, workers := range []int{1, 2, 4} {
		own := *e
		own.dir = filepath.Join(e.dir, fmt.Sprintf("workers-%d", workers))
		if err := os.MkdirAll(own.dir, 0o700); err != nil {
			return line{}, err
		}
		cpu, _, err := teamOf(ctx, &own, workers, false)
		e.binary = own.binary
		if err = errors.Join(err, removeAll(own.dir)); err != nil {
			return line{}, err
		}
		say("  workers, %d: %s core-s in sum", workers, short(cpu))
		n, total = append(n, float64(workers)), append(total, cpu)
		texts = append(texts, fmt.Sprintf("%d: %s core-s", workers, short(cpu)))
	}
	l := &line{What: "CPU in sum, by workers of the same streams", Unit: "exponent", Value: exponent(n, total)}
	l.target("<= 1, which n has", l.Value <= 1+curveNoise)
	return *l.note("CPU in sum, by workers of %s streams: %s", grouped(teamStreams), strings.Join(texts, "; ")), nil
}
