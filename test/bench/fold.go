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

func foldOn(ctx context.Context, e *env, r *rig) ([]line, error) {
	events := e.scale(foldEvents)
	h := newHistory(e.scale(foldNodes))
	if err := writeLog(ctx, r, h, events); err != nil {
		return nil, err
	}
	var got, bulk, follow, ordered, cpu, bulkCPU, bareCPU, orderedCPU samples
	var digest projector.Digest
	for round := range e.rounds() {
		for _, way := range []struct {
			rate, cpu *samples
			fold      foldingWay
		}{{&got, &cpu, following}, {&bulk, &bulkCPU, rebuilding}} {
			used := cpuSeconds()
			took, d, err := foldOnce(ctx, r, filepath.Join(r.dir, fmt.Sprintf("store-%d", round)), uint64(events), way.fold)
			if err != nil {
				return nil, err
			}
			if d.Rows != h.rows() {
				return nil, fmt.Errorf("the fold made %d rows of a log that has %d", d.Rows, h.rows())
			}
			if digest.Seq > 0 && d != digest {
				return nil, fmt.Errorf("the same log, cut up otherwise, gave digest %x and then %x", digest.Sum, d.Sum)
			}
			digest = d
			way.rate.rate(events, took)
			*way.cpu = append(*way.cpu, cpuSeconds()-used)
		}
		used := cpuSeconds()
		took, err := followAll(ctx, r.log, events)
		if err != nil {
			return nil, fmt.Errorf("floor: %w", err)
		}
		follow.rate(events, took)
		bareCPU = append(bareCPU, cpuSeconds()-used)
		used = cpuSeconds()
		if took, err = orderedAll(ctx, r.server, events); err != nil {
			return nil, fmt.Errorf("floor: %w", err)
		}
		ordered.rate(events, took)
		orderedCPU = append(orderedCPU, cpuSeconds()-used)
		say("  round %d: %s events/s, in bulk %s, floors %s (follow) and %s (ordered consumer); CPU %s s, %s s and %s s",
			round+1, short(got[round]), short(bulk[round]), short(follow[round]), short(ordered[round]), short(cpu[round]), short(bulkCPU[round]), short(bareCPU[round]))
	}
	floor, what := ordered, "the client's ordered consumer, the faster of two ways to read the log"
	if follow.median() > ordered.median() {
		floor, what = follow, "following the log and doing nothing, the faster of two ways to read it"
	}
	l := figure("", "events/s", got).beside(what, floor).ratioAtLeast(0.55)
	l.note("CPU, server included: %s s to fold and digest, %s s to rebuild in bulk and digest, %s s to follow and do nothing, %s s for the ordered consumer",
		short(cpu.median()), short(bulkCPU.median()), short(bareCPU.median()), short(orderedCPU.median()))
	b := figure("rebuilt in bulk", "events/s", bulk).beside(what, floor).ratioAtLeast(0.65)
	restored, err := restoreLine(ctx, e, r, uint64(events), digest, bulk)
	if err != nil {
		return nil, err
	}
	return []line{*b, *restored, *l.note("%s events, %s nodes, %d policies, %s rows, digest %x", grouped(int64(events)), grouped(int64(len(h.app))), h.apps*foldEach, grouped(int64(digest.Rows)), digest.Sum[:8])}, nil
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
func foldOnce(ctx context.Context, r *rig, dir string, last uint64,
	fold foldingWay,
) (took time.Duration, d projector.Digest, err error) {
	p, err := projector.Open(dir, r.options())
	if err != nil {
		return 0, d, err
	}
	began := time.Now()
	err = fold(ctx, p, r.log, last)
	took = time.Since(began)
	if err == nil {
		d, err = p.Digest(ctx)
	}
	return took, d, errors.Join(err, p.Close(), removeAll(dir))
}

// followAll reads the log as the fold does, and does nothing with it.
func followAll(ctx context.Context, log *streams.Log, want int) (time.Duration, error) {
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

// orderedAll reads the log through the client's own ordered consumer.
func orderedAll(ctx context.Context, server *streams.Server, want int) (time.Duration, error) {
	nc, err := nats.Connect("", nats.InProcessServer(server), nats.Name("floor"))
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
