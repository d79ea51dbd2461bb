package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	pace     = 4 * time.Millisecond // between events for one client each: half of what the plane can do, so that nothing queues
	paced    = 2_000                // of them, in each phase
	stuffing = 50                   // events for everybody, in each phase before those
	calm     = 90 * time.Second     // who does not read is let go after 30; what they left is collected when serve gives back after 60
	calmLook = 500 * time.Millisecond
)

// hostile measures how late events come to clients that read, beside clients
// that never read and clients that send a byte of their request a second, and
// what is left of those when they are gone.
//
// A phase is the same events to the same clients, with the hostile ones or
// without; phases take turns, and a round is one of each. What is left is held
// against a plane that had as many phases, all of them without: recent events are
// kept by the embedded server and the relay, up to bounds that a
// run does not reach, so a plane is larger after more of them.
func hostile(ctx context.Context, e *env) (lines []line, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	spared, err := afterwards(ctx, e, "spared", func(s *stage) (leave func() error, err error) {
		for range 2 * e.rounds() {
			if _, err := s.alone(ctx, e); err != nil {
				return nil, err
			}
		}
		return func() error { return nil }, nil
	})
	if err != nil {
		return nil, err
	}
	var r *hostileRounds
	after, err := afterwards(ctx, e, "beset", func(s *stage) (leave func() error, err error) {
		if r, err = s.rounds(ctx, e); err != nil {
			return nil, err
		}
		return r.siege.leave, nil
	})
	if err != nil {
		return nil, err
	}
	return r.lines(spared, after), nil
}

// afterwards reads a new plane's own figures at rest after what is done to it.
// Clients that never read have not left by then: their side stays open.
func afterwards(ctx context.Context, e *env, name string, do func(*stage) (leave func() error, err error)) (rest map[string]float64, err error) {
	own := *e
	own.dir = filepath.Join(e.dir, name)
	if err := os.Mkdir(own.dir, 0o700); err != nil {
		return nil, err
	}
	s, err := planeStage(ctx, &own, true, "--durability", "relaxed")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	s.crowd.keep = true
	if _, err = s.alone(ctx, e); err != nil { // a warm-up
		return nil, err
	}
	leave, err := do(s)
	if err != nil {
		return nil, err
	}
	rest, err = s.atRest(ctx, calm)
	return rest, errors.Join(err, leave())
}

// toll is what one phase showed.
type toll struct {
	p50, p99 float64 // ms, of events for one client each
	cpu      float64 // seconds of the plane, meanwhile
	metrics  map[string]float64
}

// hostileRounds are phases with hostile clients and without.
type hostileRounds struct {
	alone, beside []toll
	siege         *siege // of the last phase, its silent clients still connected
	returns       int    // of clients that drip
}

// rounds runs a phase of each kind by turns; the last is one with hostile
// clients.
func (s *stage) rounds(ctx context.Context, e *env) (r *hostileRounds, err error) {
	r = &hostileRounds{}
	n := e.rounds()
	for i := range n {
		aloneFirst := (n-i)%2 == 1
		if aloneFirst {
			err = r.addAlone(ctx, s, e)
		}
		if err == nil {
			err = r.addBeside(ctx, s, e)
		}
		if err == nil && !aloneFirst {
			err = errors.Join(r.siege.leave(), r.addAlone(ctx, s, e))
		}
		if err != nil {
			return nil, err
		}
		was, is := r.alone[i], r.beside[i]
		say("  p50 %s ms, p99 %s ms, CPU %s s; beside them %s, %s, %s", short(was.p50), short(was.p99), short(was.cpu), short(is.p50), short(is.p99), short(is.cpu))
		if i < n-1 {
			err = r.siege.leave()
		}
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *hostileRounds) addAlone(ctx context.Context, s *stage, e *env) error {
	t, err := s.alone(ctx, e)
	r.alone = append(r.alone, t)
	return err
}

func (r *hostileRounds) addBeside(ctx context.Context, s *stage, e *env) (err error) {
	if r.siege, err = besiege(ctx, s); err != nil {
		return err
	}
	t, err := s.phase(ctx, e, clients+neverRead)
	err = errors.Join(err, r.siege.calm())
	r.returns += r.siege.returns
	r.beside = append(r.beside, t)
	if err != nil {
		return errors.Join(err, r.siege.leave())
	}
	return nil
}

func (s *stage) alone(ctx context.Context, e *env) (toll, error) { return s.phase(ctx, e, clients) }

// phase has events come at a pace that leaves the machine room, after some for
// everybody that fill what does not read. So many streams must be open all the
// while.
func (s *stage) phase(ctx context.Context, e *env, streams float64) (t toll, err error) {
	s.forget()
	if err := s.crowd.connect(ctx, connectAtOnce, false); err != nil {
		return t, err
	}
	defer s.crowd.part()
	for i := 1; i <= stuffing/stagePolicies; i++ {
		if err := errors.Join(s.stuff(ctx, stagePolicies), s.crowd.await(ctx, i*stagePolicies*clients)); err != nil {
			return t, err
		}
	}
	began, err := s.cpuSeconds()
	if err != nil {
		return t, err
	}
	if err := s.trickle(ctx, e.scale(paced)); err != nil {
		return t, err
	}
	ended, err := s.cpuSeconds()
	if err != nil {
		return t, err
	}
	if t.metrics, err = goMetrics(ctx, s.child); err != nil {
		return t, err
	}
	if open := t.metrics[openStreams]; open != streams {
		return t, fmt.Errorf("%g streams are open at the end of a round, not %g: other work made it last longer than the write timeout, or the plane let go of somebody too soon", open, streams)
	}
	s.crowd.part()
	if err := s.crowd.check(s.want); err != nil {
		return t, err
	}
	late, _ := s.latencies()
	t.p50, t.p99, t.cpu = late.at(0.5), late.at(0.99), ended-began
	return t, nil
}

// trickle sends n events, one client's at a time, and waits until they are
// heard.
func (s *stage) trickle(ctx context.Context, n int) (err error) {
	send, heard := s.toEach(n), int(s.crowd.heard.Load())
	tick := time.NewTicker(pace)
	defer tick.Stop()
	var sent sync.WaitGroup
	faults := make(chan error, n)
	for i := range n {
		<-tick.C
		at := time.Now()
		sent.Go(func() {
			cause, err := send(ctx, i)
			faults <- err
			s.expect(cause, at, i%clients)
		})
	}
	sent.Wait()
	for range n {
		err = errors.Join(err, <-faults)
	}
	if err != nil {
		return err
	}
	return s.crowd.await(ctx, heard+n)
}

const (
	liveMemory  = "live"
	openStreams = "edict_sse_clients"
	goroutines  = "go_goroutines"
)

// atRest reads the process's own figures at rest: when it has collected what it
// left, so the least of each within a time.
func (s *stage) atRest(ctx context.Context, within time.Duration) (map[string]float64, error) {
	var least map[string]float64
	for began := time.Now(); time.Since(began) < within; time.Sleep(calmLook) {
		now, err := goMetrics(ctx, s.child)
		if err != nil {
			return nil, err
		}
		if least == nil {
			least = now
		}
		for _, name := range []string{goroutines, liveMemory, openStreams} {
			least[name] = min(least[name], now[name])
		}
	}
	say("  at rest: %s goroutines, %s MiB, %g streams", short(least[goroutines]), short(least[liveMemory]/(1<<20)), least[openStreams])
	return least, nil
}

// of is one figure of each phase.
func of(tolls []toll, figure func(toll) float64) (all samples) {
	for _, t := range tolls {
		all = append(all, figure(t))
	}
	return all
}

func (r *hostileRounds) lines(spared, after map[string]float64) []line {
	const mib = 1 << 20
	last := r.beside[len(r.beside)-1]
	p99 := func(t toll) float64 { return t.p99 }
	var ratios samples
	for i := range r.alone {
		ratios = append(ratios, r.beside[i].p99/r.alone[i].p99)
	}
	l := figure("p99", "ms", of(r.beside, p99)).beside("the same without them", of(r.alone, p99))
	l.Ratio = ratios.median() // of neighbours: the machine is not the same all the time
	l.ratioAtMost(1.5)
	l.note("%s clients that read, %s that never do and %s that send a byte a second (%s times such a one was let go and came back); an event every %s; %s in each phase; the rounds' ratios are %.3g",
		grouped(clients), grouped(neverRead), grouped(drip), grouped(int64(r.returns)), pace, grouped(paced), ratios)
	cpu := func(t toll) float64 { return t.cpu }
	c := figure("the plane's CPU", "s", of(r.beside, cpu)).beside("the same without them", of(r.alone, cpu))
	g := figure("goroutines afterwards", "", samples{after[goroutines]}).beside("of a plane that never had them", samples{spared[goroutines]}).ratioAtMost(1.1)
	g.note("%s goroutines and %g streams while they were there; %g streams afterwards, of which the clients had not closed %s",
		grouped(int64(last.metrics[goroutines])), last.metrics[openStreams], after[openStreams], grouped(neverRead))
	m := figure("live memory afterwards", "MiB", samples{after[liveMemory] / mib}).beside("of a plane that never had them, after the same events", samples{spared[liveMemory] / mib}).ratioAtMost(1.1)
	m.note("%s MiB while they were there; the heap that is live or not yet collected, and stacks", short(last.metrics[liveMemory]/mib))
	return []line{*l, *c, *g, *m}
}
