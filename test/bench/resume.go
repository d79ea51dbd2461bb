package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/policy"
)

const (
	resumed     = 10_000 // streams, and events that they were away for
	resumePace  = time.Millisecond
	resumeAlone = 5 * time.Second // for which the fold is timed without them
)

// resume measures how long a stream that comes back waits for what it missed,
// from its request to the row: so many streams, one after the other at a pace,
// after so many events, while the log takes as many events as it can, of a producer in a
// process of its own, and the fold follows. The fold's floor is the same without streams
// that come back.
func resume(ctx context.Context, e *env) (lines []line, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	// What keeps the fold busy leaves more in the kept past than its bytes are by default.
	s, err := serveEdict(ctx, e, "--durability", "relaxed", "--past-bytes", fmt.Sprint(4<<30))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	r := newReturning(e, s)
	if err := r.begin(ctx); err != nil {
		return nil, err
	}
	var p50, p99, fold, alone samples
	for range e.rounds() {
		late, with, without, err := r.round(ctx)
		if err != nil {
			return nil, err
		}
		p50, p99 = append(p50, late.at(0.5)), append(p99, late.at(0.99))
		fold, alone = append(fold, with), append(alone, without)
		say("  a resume: p50 %s ms, p99 %s ms; fold %s events/s, alone %s", short(last(p50)), short(last(p99)), short(with), short(without))
	}
	l := figure("a resume, p99", "ms", p99).atMost(5)
	l.note("%s streams, one every %s, each with one row of %s events that it was away for; p50 %s ms", grouped(int64(r.n)), resumePace, grouped(int64(r.n)), short(p50.median()))
	return []line{*l, *figure("the fold meanwhile", "events/s", fold).beside("the fold without them", alone).ratioAtLeast(0.8)}, nil
}

// returning is a plane whose every node has a policy of its own, and a crowd.
type returning struct {
	s     *served
	a     *author
	n     int
	said  int
	crowd *crowd
	e     *env
}

func newReturning(e *env, s *served) *returning {
	n := e.scale(resumed)
	r := &returning{e: e, s: s, a: newAuthor(9), n: n}
	var paths []string
	for i := range n {
		paths = append(paths, "/v1/nodes/"+string(nodeName(i))+"/events")
	}
	r.crowd = newCrowd(s.addr, paths)
	r.crowd.accept, r.crowd.keep = inRuns, true
	return r
}

func (r *returning) begin(ctx context.Context) error {
	var events []policy.Event
	for i := range r.n {
		events = append(events, r.a.node(i, labelled("host", string(nodeName(i)))))
	}
	return errors.Join(r.s.publish(ctx, events), r.revise(ctx))
}

// revise gives each node's policy another revision, and waits for the fold.
func (r *returning) revise(ctx context.Context) error {
	var events []policy.Event
	for i := range r.n {
		r.said++
		events = append(events, r.a.revise(i, selecting("host="+string(nodeName(i))), 1, r.said))
	}
	if err := r.s.publish(ctx, events); err != nil {
		return err
	}
	_, err := r.s.settled(ctx)
	return err
}

// round has everybody come back once.
func (r *returning) round(ctx context.Context) (late samples, with, without float64, err error) {
	id, err := r.s.position(ctx, nodeName(0))
	if err != nil {
		return nil, 0, 0, err
	}
	for _, m := range r.crowd.members {
		m.last = id
	}
	if err := r.revise(ctx); err != nil {
		return nil, 0, 0, err
	}
	if with, without, err = r.besideFold(ctx); err != nil {
		return nil, 0, 0, err
	}
	r.crowd.part()
	for _, m := range r.crowd.members {
		if len(m.times) != 1 || len(m.faults) > 0 {
			return nil, 0, 0, fmt.Errorf("%s heard %d events, not one: %v", m.path, len(m.times), m.faults)
		}
		late = append(late, float64(m.times[0].at.Sub(m.asked).Microseconds())/1000)
	}
	_, err = r.s.settled(ctx)
	return late, with, without, err
}

// besideFold has everybody come back while the fold runs, and times the fold before.
func (r *returning) besideFold(ctx context.Context) (with, without float64, err error) {
	p, err := startProducer(ctx, r.e, r.s)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	if without, err = r.foldRate(ctx, func() error { return pause(ctx, resumeAlone) }); err != nil {
		return 0, 0, err
	}
	with, err = r.foldRate(ctx, func() error { return r.comeBack(ctx) })
	return with, without, err
}

// comeBack opens every stream at its pace, and waits until each has its row.
func (r *returning) comeBack(ctx context.Context) error {
	r.crowd.heard.Store(0)
	g, opening := errgroup.WithContext(ctx)
	g.SetLimit(connectAtOnce)
	tick := time.NewTicker(resumePace)
	defer tick.Stop()
	for _, m := range r.crowd.members {
		<-tick.C
		g.Go(func() error { return r.crowd.open(opening, m, true) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return r.crowd.await(ctx, r.n)
}

// foldRate is how many events a second are folded while f lasts.
func (r *returning) foldRate(ctx context.Context, f func() error) (rate float64, err error) {
	var from, to status
	if err := r.s.getJSON(ctx, "/v1/status", &from); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := f(); err != nil {
		return 0, err
	}
	took := time.Since(began)
	if err := r.s.getJSON(ctx, "/v1/status", &to); err != nil {
		return 0, err
	}
	return float64(to.Applied-from.Applied) / took.Seconds(), nil
}

// position is the event id that a node which pulls now goes on from.
func (s *served) position(ctx context.Context, node policy.NodeID) (uint64, error) {
	resp, err := s.get(ctx, "/v1/nodes/"+string(node)+"/state")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("GET state of %s: %s", node, resp.Status)
	}
	return strconv.ParseUint(resp.Header.Get(headerEventID), 10, 64)
}
