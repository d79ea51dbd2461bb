package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/internal/backoff"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

const (
	resumed     = 10_000 // streams, and events that they were away for
	resumePace  = 3 * time.Millisecond
	resumeLoad  = 0.82            // of the rate that the fold has without them
	resumeAlone = 5 * time.Second // for which the fold is timed without them
)

// resume measures how long a stream that comes back waits for what it missed,
// from its request to the row: so many streams, one after the other at a pace,
// after so many events, while a producer in a process of its own publishes what the fold
// must keep up with, four fifths of what it takes alone. The floor is a plain hub that has
// the past in memory, and a log in its process that it reads and decodes meanwhile. The
// fold's floor is the same without streams that come back, and a producer that does not wait.
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
	defer func() { err = errors.Join(err, r.hub.close()) }()
	var t resumeTimes
	for range e.rounds() {
		ours, hubs, err := r.round(ctx)
		if err != nil {
			return nil, err
		}
		t.add(&ours, &hubs)
	}
	return t.lines(r.n), nil
}

// resumeTimes are the figures of all rounds, of the plane and of the hub.
type resumeTimes struct {
	p50, p99, cpu, fold, alone [2]samples
}

func (t *resumeTimes) add(ours, hubs *cameBack) {
	for i, c := range []*cameBack{ours, hubs} {
		t.p50[i], t.p99[i] = append(t.p50[i], c.late.at(0.5)), append(t.p99[i], c.late.at(0.99))
		t.cpu[i] = append(t.cpu[i], c.cpu)
		t.fold[i], t.alone[i] = append(t.fold[i], c.fold), append(t.alone[i], c.alone)
		say("  %s: a resume: p50 %s ms, p99 %s ms, %s us CPU; %s events/s meanwhile, alone %s", []string{"plane", "hub"}[i],
			short(last(t.p50[i])), short(last(t.p99[i])), short(c.cpu), short(c.fold), short(c.alone))
	}
}

func (t *resumeTimes) lines(n int) []line {
	const floor = "a plain hub that has the past in memory, and reads and decodes a log of its own meanwhile"
	l := figure("a resume, p99", "ms", t.p99[0]).beside(floor, t.p99[1]).ratioAtMost(1.5)
	l.note("%s streams, one every %s, each with one row of %s events that it was away for", grouped(int64(n)), resumePace, grouped(int64(n)))
	l.note("the producer publishes %s of what is folded without them", short(resumeLoad))
	l.note("5 ms was the target on the machine of the prototype")
	m := figure("a resume, p50", "ms", t.p50[0]).beside(floor, t.p50[1])
	c := figure("a resume, the server's CPU", "us", t.cpu[0]).beside(floor, t.cpu[1])
	c.note("CPU of a resume: what the server used while they came, without what as many events take alone")
	f := figure("the fold meanwhile", "events/s", t.fold[0]).beside("the fold without them", t.alone[0]).ratioAtLeast(0.8)
	f.note("the hub read %s events/s meanwhile, %s without them", short(t.fold[1].median()), short(t.alone[1].median()))
	return []line{*l, *m, *c, *f}
}

// returning is a plane whose every node has a policy of its own, and a crowd; and a
// plain hub with as many topics, and its crowd.
type returning struct {
	s     *served
	a     *author
	n     int
	said  int
	crowd *crowd
	hub   *plainHub
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

// cameBack is how a crowd came back: what each waited for its row, in ms, what that took
// of the server's CPU, in us, and how many events a second were folded meanwhile, and
// without it.
type cameBack struct {
	late             samples
	cpu, fold, alone float64
}

func (r *returning) begin(ctx context.Context) error {
	var events []policy.Event
	for i := range r.n {
		events = append(events, r.a.node(i, labelled("host", string(nodeName(i)))))
	}
	if err := errors.Join(r.s.publish(ctx, events), r.revise(ctx)); err != nil {
		return err
	}
	var err error
	r.hub, err = startHub(ctx, r.e, r.n)
	return err
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

// round has everybody come back once, to the plane and to the hub.
func (r *returning) round(ctx context.Context) (ours, hubs cameBack, err error) {
	id, err := r.s.position(ctx, nodeName(0))
	if err != nil {
		return ours, hubs, err
	}
	for _, m := range r.crowd.members {
		m.last = id
	}
	if err := r.revise(ctx); err != nil {
		return ours, hubs, err
	}
	if ours, err = besideReader(ctx, r.e, r.s.child, r.crowd, r.applied); err != nil {
		return ours, hubs, err
	}
	if _, err = r.s.settled(ctx); err != nil {
		return ours, hubs, err
	}
	if err := r.hub.away(ctx, r.crowd.eventBytes()); err != nil {
		return ours, hubs, err
	}
	hubs, err = besideReader(ctx, r.e, r.hub.child, r.hub.crowd, r.hub.log.Head)
	return ours, hubs, err
}

// applied is up to which event the plane has folded.
func (r *returning) applied(ctx context.Context) (uint64, error) {
	var st status
	err := r.s.getJSON(ctx, "/v1/status", &st)
	return st.Applied, err
}

// besideReader has everybody come back to a server while it reads what a producer
// publishes, and before it does that alone.
func besideReader(ctx context.Context, e *env, server *child, c *crowd, at func(context.Context) (uint64, error)) (b cameBack, err error) {
	alone, err := besideProducer(ctx, e, server, at, 0, func() error { return backoff.Sleep(ctx, resumeAlone) })
	if err != nil {
		return b, err
	}
	meanwhile, err := besideProducer(ctx, e, server, at, resumeLoad*alone.events/alone.seconds, func() error { return c.comeBack(ctx) })
	if err != nil {
		return b, err
	}
	c.part()
	for _, m := range c.members {
		if len(m.times) != 1 || len(m.faults) > 0 {
			return b, fmt.Errorf("%s heard %d events, not one: %v", m.path, len(m.times), m.faults)
		}
		b.late = append(b.late, float64(m.times[0].at.Sub(m.asked).Microseconds())/1000)
	}
	const micro = 1e6
	b.alone, b.fold = alone.events/alone.seconds, meanwhile.events/meanwhile.seconds
	b.cpu = (meanwhile.cpu - alone.cpu/alone.events*meanwhile.events) * micro / float64(len(c.members))
	return b, nil
}

// spent is what a server did and used for a while.
type spent struct{ events, cpu, seconds float64 }

// spend is what a server does and uses while f lasts. at is up to which event it has
// read its log.
func spend(ctx context.Context, server *child, at func(context.Context) (uint64, error), f func() error) (s spent, err error) {
	from, err := at(ctx)
	if err != nil {
		return s, err
	}
	used, err := server.cpuSeconds()
	if err != nil {
		return s, err
	}
	began := time.Now()
	if err := f(); err != nil {
		return s, err
	}
	s.seconds = time.Since(began).Seconds()
	now, err := server.cpuSeconds()
	if err != nil {
		return s, err
	}
	to, err := at(ctx)
	s.cpu, s.events = now-used, float64(to-from)
	return s, err
}

// besideProducer is what a server used while f ran and a producer published at a rate.
func besideProducer(ctx context.Context, e *env, server *child, at func(context.Context) (uint64, error), rate float64, f func() error) (s spent, err error) {
	p, err := startProducer(ctx, e, server.nats, rate)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	return spend(ctx, server, at, f)
}

// comeBack opens every stream at its pace, and waits until each has its event.
func (c *crowd) comeBack(ctx context.Context) error {
	c.heard.Store(0)
	c.bytes.Store(0)
	g, opening := errgroup.WithContext(ctx)
	g.SetLimit(connectAtOnce)
	tick := time.NewTicker(resumePace)
	defer tick.Stop()
	for _, m := range c.members {
		<-tick.C
		g.Go(func() error { return c.open(opening, m, true) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return c.await(ctx, len(c.members))
}

// plainHub is a plain hub that reads a log, and a crowd that was there and heard of an
// event.
type plainHub struct {
	*child
	conn  *streams.Conn
	log   *streams.Log
	crowd *crowd
	said  uint64
}

func startHub(ctx context.Context, e *env, topics int) (*plainHub, error) {
	c, err := hubProcess(ctx, e, readingHubCommand)
	if err != nil {
		return nil, err
	}
	var paths []string
	for i := range topics {
		paths = append(paths, "/events/"+string(nodeName(i)))
	}
	h := &plainHub{child: c, crowd: newCrowd(c.addr, paths)}
	h.crowd.keep = true
	if h.conn, err = streams.Connect(ctx, streams.ConnectOptions{URL: h.nats, Name: "bench"}); err == nil {
		h.log, err = streams.OpenLog(ctx, h.conn, streams.LogOptions{})
	}
	if err == nil {
		err = h.meet(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, h.close())
	}
	return h, nil
}

func (h *plainHub) close() error {
	if h.conn != nil {
		h.conn.Close()
	}
	return h.stop()
}

// meet gives every client a place to come back to: one event.
func (h *plainHub) meet(ctx context.Context) error {
	defer h.crowd.part()
	if err := h.crowd.connect(ctx, connectAtOnce, false); err != nil {
		return err
	}
	h.said++
	if err := post(ctx, http.DefaultClient, h.url("/publish"), padded(h.said, 0)); err != nil {
		return err
	}
	return h.crowd.await(ctx, len(h.crowd.members))
}

// away publishes an event of a size to each topic.
func (h *plainHub) away(ctx context.Context, size int) error {
	for i := range h.crowd.members {
		h.said++
		if err := post(ctx, http.DefaultClient, h.url("/publish/"+string(nodeName(i))), padded(h.said, size)); err != nil {
			return err
		}
	}
	return nil
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
