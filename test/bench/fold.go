package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// The log to fold: policies first, then nodes, then nodes that change their
// labels, and now and then a policy that is revised. A node matches the three
// policies of its app. One change in four takes it to another app, the others
// change a label that no policy asks for.
const (
	foldEvents   = 1_000_000
	foldNodes    = 100_000
	foldPolicies = 1_000
	foldRules    = 20
	foldEach     = 3 // policies a node matches
	foldReleases = 10
	foldRevise   = 500 // one event in so many revises a policy
)

// history writes that log and keeps what must come of it.
type history struct {
	a    *author
	n    int // events written
	apps int
	app  []int // node → its app; shorter than all until every node is there
	all  int
}

func newHistory(nodes int) *history {
	return &history{a: newAuthor(2), apps: foldPolicies / foldEach, all: nodes}
}

func (h *history) next() policy.Event {
	i := h.n
	h.n++
	switch {
	case i < h.apps*foldEach:
		return h.a.revise(i, h.selector(i), foldRules, i)
	case len(h.app) < h.all:
		h.app = append(h.app, h.a.r.IntN(h.apps))
		return h.update(len(h.app) - 1)
	case i%foldRevise == 0:
		p := h.a.r.IntN(h.apps * foldEach)
		return h.a.revise(p, h.selector(p), foldRules, i)
	}
	node := h.a.r.IntN(h.all)
	if h.a.r.IntN(4) == 0 {
		h.app[node] = h.a.r.IntN(h.apps)
	}
	return h.update(node)
}

func (h *history) selector(policy int) policy.Selector {
	return selecting(fmt.Sprintf("app=a%d", policy%h.apps))
}

func (h *history) update(node int) policy.Event {
	return h.a.node(node, labelled("app", fmt.Sprintf("a%d", h.app[node]), "env", "prod",
		"release", fmt.Sprintf("r%d", h.a.r.IntN(foldReleases))))
}

// rows is how many rows there must be.
func (h *history) rows() int { return len(h.app) * foldEach }

func foldLog(ctx context.Context, e *env) ([]line, error) {
	ctx, cancel := context.WithTimeout(ctx, 8*time.Minute)
	defer cancel()
	r, err := openRig(ctx, e.dir)
	if err != nil {
		return nil, err
	}
	lines, err := foldOn(ctx, e, r)
	return lines, errors.Join(err, r.Close())
}

// foldWay is a way to fold a log, and what it came to.
type foldWay struct {
	what      string
	log       *streams.Log
	fold      foldingWay
	least     float64 // of its floor; 0: nobody asked
	floor     *readWay
	rate, cpu samples
}

// readWay is a way to read a log and do nothing with it.
type readWay struct {
	what      string
	read      func(ctx context.Context, want int) (time.Duration, error)
	rate, cpu samples
}

func foldOn(ctx context.Context, e *env, r *rig) ([]line, error) {
	events := e.scale(foldEvents)
	h := newHistory(e.scale(foldNodes))
	if err := writeLog(ctx, r, h, events); err != nil {
		return nil, err
	}
	// As a worker of a cluster reads, though the server is in this process.
	conn, err := streams.Connect(ctx, streams.ConnectOptions{URL: r.server.ClientURL(), Name: "bench"})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	apart, err := streams.OpenLog(ctx, conn, streams.LogOptions{})
	if err != nil {
		return nil, err
	}
	ordered := &readWay{what: "the NATS client's ordered consumer", read: orderedAll("", nats.InProcessServer(r.server))}
	orderedApart := &readWay{what: "the NATS client's ordered consumer, over TCP", read: orderedAll(r.server.ClientURL())}
	reads := []*readWay{ordered, orderedApart, {what: "the log followed", read: followAll(r.log)}, {what: "the log followed over TCP", read: followAll(apart)}}
	folds := []*foldWay{
		{what: "", log: r.log, fold: following, least: 0.55, floor: ordered},
		{what: "rebuilt in bulk", log: r.log, fold: rebuilding, least: 0.65, floor: ordered},
		{what: "over TCP", log: apart, fold: following, floor: orderedApart},
		{what: "rebuilt in bulk over TCP", log: apart, fold: rebuilding, floor: orderedApart},
	}
	var digest projector.Digest
	for round := range e.rounds() {
		for _, w := range folds {
			if err := w.once(ctx, r, h, &digest); err != nil {
				return nil, err
			}
			say("  round %d: fold %s: %s events/s, CPU %s s", round+1, w.what, short(last(w.rate)), short(last(w.cpu)))
		}
		for _, w := range reads {
			if err := w.once(ctx, events); err != nil {
				return nil, fmt.Errorf("floor: %w", err)
			}
			say("  round %d: %s: %s events/s, CPU %s s", round+1, w.what, short(last(w.rate)), short(last(w.cpu)))
		}
	}
	var lines []line
	for _, w := range folds {
		l := figure(w.what, "events/s", w.rate).beside(w.floor.what, w.floor.rate)
		if w.least > 0 {
			l.ratioAtLeast(w.least)
		}
		lines = append(lines, *l.note("CPU, server included: %s s to fold and digest, %s s for the floor", short(w.cpu.median()), short(w.floor.cpu.median())))
	}
	lines[0].note("%s events, %s nodes, %d policies, %s rows, digest %x", grouped(int64(events)), grouped(int64(len(h.app))), h.apps*foldEach, grouped(int64(digest.Rows)), digest.Sum[:8])
	for _, w := range reads[2:] {
		lines[0].note("%s, and nothing done with it: %s events/s, CPU %s s", w.what, grouped(int64(w.rate.median())), short(w.cpu.median()))
	}
	restored, err := restoreLine(ctx, e, r, uint64(events), digest, folds[1].rate)
	if err != nil {
		return nil, err
	}
	return append(lines, *restored), nil
}

// once folds the history's log. All ways must come to the same digest.
func (w *foldWay) once(ctx context.Context, r *rig, h *history, digest *projector.Digest) error {
	used := cpuSeconds()
	took, d, err := foldOnce(ctx, r, w.log, filepath.Join(r.dir, "store"), uint64(h.n), w.fold)
	if err != nil {
		return err
	}
	if d.Rows != h.rows() {
		return fmt.Errorf("the fold made %d rows of a log that has %d", d.Rows, h.rows())
	}
	if digest.Seq > 0 && d != *digest {
		return fmt.Errorf("the same log, cut up otherwise, gave digest %x and then %x", digest.Sum, d.Sum)
	}
	*digest = d
	w.rate.rate(h.n, took)
	w.cpu = append(w.cpu, cpuSeconds()-used)
	return nil
}

// once reads a log of so many events.
func (w *readWay) once(ctx context.Context, events int) error {
	used := cpuSeconds()
	took, err := w.read(ctx, events)
	if err != nil {
		return err
	}
	w.rate.rate(events, took)
	w.cpu = append(w.cpu, cpuSeconds()-used)
	return nil
}

// writeLog appends the history to the log.
func writeLog(ctx context.Context, r *rig, h *history, events int) error {
	const chunk = 10_000
	for h.n < events {
		batch := make([]policy.Event, 0, chunk)
		for range min(chunk, events-h.n) {
			batch = append(batch, h.next())
		}
		if _, err := r.publish(ctx, batch); err != nil {
			return err
		}
	}
	state, err := r.log.State(ctx)
	if err != nil {
		return err
	}
	if state.Messages != uint64(events) {
		return fmt.Errorf("the log holds %d events of %d", state.Messages, events)
	}
	say("  the log has %s events, %s MB", grouped(int64(events)), grouped(int64(state.Bytes>>20)))
	return nil
}

// foldingWay is one way to fold a log up to last.
type foldingWay func(ctx context.Context, p *projector.Projector, log projector.Log, last uint64) error

// rebuilding folds it in bulk.
func rebuilding(ctx context.Context, p *projector.Projector, log projector.Log, last uint64) error {
	return p.Rebuild(ctx, log, last)
}

// following folds a log up to last as a worker follows it.
func following(ctx context.Context, p *projector.Projector, log projector.Log, last uint64) error {
	return foldAll(ctx, p, log, last)
}

// foldOnce folds the whole log into a new store, synced, and removes it.
func foldOnce(ctx context.Context, r *rig, log *streams.Log, dir string, last uint64,
	fold foldingWay,
) (took time.Duration, d projector.Digest, err error) {
	p, err := projector.Open(dir, r.options())
	if err != nil {
		return 0, d, err
	}
	began := time.Now()
	err = fold(ctx, p, log, last)
	took = time.Since(began)
	if err == nil {
		d, err = p.Digest(ctx)
	}
	return took, d, errors.Join(err, p.Close(), removeAll(dir))
}

// followAll reads a log as the fold does, and does nothing with it.
func followAll(log *streams.Log) func(ctx context.Context, want int) (time.Duration, error) {
	return func(ctx context.Context, want int) (time.Duration, error) {
		began := time.Now()
		seen := 0
		for msgs, err := range log.Follow(ctx, 0) {
			if err != nil {
				return 0, err
			}
			if seen += len(msgs); seen >= want {
				return time.Since(began), nil
			}
		}
		return 0, fmt.Errorf("the log gave %d events of %d", seen, want)
	}
}

// orderedAll reads the log of a server through the client's own ordered consumer.
func orderedAll(url string, options ...nats.Option) func(ctx context.Context, want int) (time.Duration, error) {
	return func(ctx context.Context, want int) (time.Duration, error) {
		nc, err := nats.Connect(url, append(options, nats.Name("floor"))...)
		if err != nil {
			return 0, err
		}
		defer nc.Close()
		js, err := jetstream.New(nc)
		if err != nil {
			return 0, err
		}
		began := time.Now()
		c, err := js.OrderedConsumer(ctx, streams.LogStream, jetstream.OrderedConsumerConfig{})
		if err != nil {
			return 0, err
		}
		seen, done := 0, make(chan struct{})
		cc, err := c.Consume(func(jetstream.Msg) {
			if seen++; seen == want {
				close(done)
			}
		}, jetstream.PullMaxMessages(5000))
		if err != nil {
			return 0, err
		}
		defer cc.Stop()
		select {
		case <-done:
			return time.Since(began), nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}
