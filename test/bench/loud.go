package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/policy"
)

const (
	loudWriters  = 16   // over HTTP, each as fast as it is answered
	loudPolicies = 1500 // that all match one node, or none of them does
	loudFlips    = 928  // of its label
	loudFor      = 10 * time.Second
	loudAfter    = time.Second // when nothing of it may be left
	loudQuota    = 20          // events a second, where it has a quota
)

// loud measures how long a project's writes take while another one writes as fast as it
// can, strict: over HTTP, over NATS, each with a quota and without, and by a label of one
// node. The floor is the same writes while nobody else writes, before and after.
func loud(ctx context.Context, e *env) ([]line, error) {
	return besides(ctx, e, []loudCase{
		{"over HTTP", 0, (*loudness).writers},
		{"over HTTP, with a quota", loudQuota, (*loudness).writers},
		{"over NATS", 0, (*loudness).producer},
		{"over NATS, with a quota", loudQuota, (*loudness).producer},
		byLabel,
	})
}

// flip is what loud has of a label, alone.
func flip(ctx context.Context, e *env) ([]line, error) { return besides(ctx, e, []loudCase{byLabel}) }

// loudCase is a way in which a project is loud.
type loudCase struct {
	what  string
	quota int
	begin func(l *loudness, ctx context.Context) (end func() error, err error)
}

var byLabel = loudCase{"by a label that 1,500 policies are about", 0, (*loudness).flips}

func besides(ctx context.Context, e *env, cases []loudCase) (lines []line, err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	s, err := serveEdict(ctx, e)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	return on(ctx, &loudness{e: e}, s, cases)
}

// loudGuarded has the loud project be a producer with a token, over NATS, that keeps to
// nothing. Its quota is all that the plane was told.
func loudGuarded(ctx context.Context, e *env) (lines []line, err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	s, hostile, err := guardedPlane(ctx, e)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	return on(ctx, &loudness{e: e, hostile: hostile}, s, []loudCase{
		{"500 events under way, with a quota", loudQuota, (*loudness).windowed},
		{"no answer waited for, with a quota", loudQuota, (*loudness).floods},
		{"500 events under way", 0, (*loudness).windowed},
	})
}

// on measures cases on a plane.
func on(ctx context.Context, l *loudness, s *served, cases []loudCase) (lines []line, err error) {
	l.n = &neighbourhood{s: s, client: &http.Client{Transport: bearer{s.token, &http.Transport{MaxIdleConnsPerHost: loudWriters}}}}
	if _, err := l.quiet(ctx); err != nil { // a warm-up
		return nil, err
	}
	for _, c := range cases {
		if err := l.limit(ctx, c.quota); err != nil {
			return nil, err
		}
		some, err := l.beside(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.what, err)
		}
		lines = append(lines, some...)
	}
	return lines, nil
}

// loudness is a quiet project, and one that is not.
type loudness struct {
	e *env
	n *neighbourhood
	a *author

	hostile string // token of a producer of the loud project; empty: without access
}

// quiet are how long the writes of the quiet project take.
func (l *loudness) quiet(ctx context.Context) (samples, error) {
	return l.n.paced(ctx, project, l.e.scale(neighbourWrites))
}

// beside measures the quiet project alone, beside the loud one, and what is left after.
func (l *loudness) beside(ctx context.Context, c loudCase) ([]line, error) {
	what := c.what
	var alone, beset, ratio [2]samples // p50 and p99
	var left samples
	for range l.e.rounds() {
		without, err := l.quiet(ctx)
		if err != nil {
			return nil, err
		}
		end, err := c.begin(l, ctx)
		if err != nil {
			return nil, err
		}
		with, err := l.quiet(ctx)
		if err = errors.Join(err, end()); err != nil {
			return nil, err
		}
		busy, err := l.left(ctx)
		if err != nil {
			return nil, err
		}
		left = append(left, busy)
		for i, q := range []float64{0.5, 0.99} {
			alone[i], beset[i] = append(alone[i], without.at(q)), append(beset[i], with.at(q))
			ratio[i] = append(ratio[i], last(beset[i])/last(alone[i]))
		}
		say("  %s: p50 %s ms, p99 %s ms; alone %s and %s; %s cores a second after", what, short(last(beset[0])), short(last(beset[1])), short(last(alone[0])), short(last(alone[1])), short(busy))
		if _, err := l.n.s.settledAny(ctx); err != nil {
			return nil, err
		}
	}
	var lines []line
	for i, name := range []string{"p50", "p99"} {
		x := figure(what+": the other's write, "+name, "ms", beset[i]).beside("the same alone", alone[i])
		x.Ratio = ratio[i].median() // of neighbours: the machine is not the same all the time
		lines = append(lines, *x.ratioAtMost(1.5))
	}
	return append(lines, *figure(what+": left after a second", "cores", left).atMost(0.2)), nil
}

// left is how busy the plane is in the second that begins a second after the loud one ended.
func (l *loudness) left(ctx context.Context) (float64, error) {
	select {
	case <-time.After(loudAfter):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	before, err := l.n.s.cpuSeconds()
	if err != nil {
		return 0, err
	}
	time.Sleep(time.Second)
	after, err := l.n.s.cpuSeconds()
	return after - before, err
}

// writers write nodes of the loud project over HTTP. What a quota refuses is tried again at
// once, as nobody should.
func (l *loudness) writers(ctx context.Context) (end func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	for i := range loudWriters {
		all.Go(func() {
			for ctx.Err() == nil {
				_ = l.n.put(ctx, busyProject, policy.NodeID(fmt.Sprintf("loud-%d", i))) // refused, or cut off at the end
			}
		})
	}
	return func() error { cancel(); all.Wait(); return nil }, nil
}

// producer writes nodes of the loud project over NATS.
func (l *loudness) producer(ctx context.Context) (end func() error, err error) {
	c, err := startProducer(ctx, l.e, l.n.s.nats, 0)
	if err != nil {
		return nil, err
	}
	return c.stop, nil
}

// windowed has a hostile producer wait for the log, not for verdicts.
func (l *loudness) windowed(ctx context.Context) (end func() error, err error) {
	return l.keptTo(ctx, false)
}

// floods has one wait for nothing.
func (l *loudness) floods(ctx context.Context) (end func() error, err error) {
	return l.keptTo(ctx, true)
}

func (l *loudness) keptTo(ctx context.Context, floods bool) (end func() error, err error) {
	c, err := startHostile(ctx, l.e, l.n.s.nats, l.hostile, floods)
	if err != nil {
		return nil, err
	}
	return c.stop, nil
}

// flips has all policies of a project match its node and match it no more, in turn.
func (l *loudness) flips(ctx context.Context) (end func() error, err error) {
	if l.a == nil {
		l.a = newAuthor(31)
		var events []policy.Event
		for i := range l.e.scale(loudPolicies) {
			r := l.a.revise(i, selecting("mode=on"), 2, i)
			r.Project = flipped
			events = append(events, r)
		}
		if err := l.n.s.publish(ctx, events); err != nil {
			return nil, err
		}
		if _, err := l.n.s.settledAny(ctx); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		tick := time.NewTicker(loudFor / loudFlips)
		defer tick.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			n := l.a.node(0, labelled("mode", []string{"on", "off"}[i%2]))
			n.Project, n.Node = flipped, "flipped"
			if err := l.n.s.publish(ctx, []policy.Event{n}); err != nil && ctx.Err() == nil {
				ended <- err
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
		ended <- nil
	}()
	return func() error { cancel(); return <-ended }, nil
}

// flipped is the project with the label.
var flipped = uuid.MustParse("00000000-0000-4000-8000-000000000002")

// limit gives the loud project a quota of so many events a second; 0: none.
func (l *loudness) limit(ctx context.Context, rate int) error {
	body := strings.NewReader(fmt.Sprintf(`{"events_per_second":%d}`, rate))
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, l.n.s.url("/v1/projects/"+busyProject.String()+"/quota"), body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := l.n.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("set a quota: %s", resp.Status)
	}
	return nil
}
