package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/backoff"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

const (
	sentNodes = 100_000
	sentSets  = 50 // label sets of the fleet
	sentRules = 20
	// maxPlainCPU bounds what a message may cost beside a plain one. The plane that put a
	// message for each node into a stream took 55 us where a plain one took 7, and this
	// one is to be five times as cheap; both on the machine of the prototype.
	maxPlainCPU = 55.0 / 5 / 7
	// storedRate is what that plane sent a second, strict, at best.
	storedRate = 25_000
	// quietly is how long nobody listens before it is measured what that costs.
	quietly = 2 * time.Second
	// unheardTimes is how many revisions nobody listens to: one costs less than a plane at
	// rest uses in the time that is waited for what comes late.
	unheardTimes = 20
)

// sentNATS measures from the publication of one revision until every node's
// message of it is with a listener over NATS, signed and with a strict log. The
// floor is a process that publishes the same bytes on a server of its own, plainly,
// to the same listener: it stores, signs and derives nothing.
func sentNATS(ctx context.Context, e *env) (lines []line, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	s, err := serveEdict(ctx, e)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	a, nodes := newAuthor(1), e.scale(sentNodes)
	if err := registerFleet(ctx, s, a, nodes); err != nil {
		return nil, err
	}
	t := telling{s: s, a: a, nodes: nodes}
	if t.ear, err = listen(s.nats, allNodes); err != nil {
		return nil, err
	}
	defer t.ear.close()
	if err := t.first(ctx); err != nil {
		return nil, err
	}
	defer t.same.free()
	floors, err := t.openFloors(ctx, e)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, floors.close()) }()
	for range e.rounds() {
		if err := t.round(ctx, floors); err != nil {
			return nil, err
		}
	}
	if err := t.unheard(ctx, e); err != nil {
		return nil, err
	}
	return t.lines(), nil
}

// telling is a plane with a fleet, and what telling it took.
type telling struct {
	s     *served
	a     *author
	nodes int
	ear   *ear
	same  *capture // what the plane said of one revision
	said  int

	got, bare               samples // messages a second
	cpu, bareCPU, signedCPU samples // seconds for one revision
	silent                  samples // the same, when nobody listens
}

// revise publishes a revision that every node is sent.
func (t *telling) revise(ctx context.Context) (seq uint64, err error) {
	t.said++
	seq, _, err = t.s.log.Publish(ctx, streams.Append{Event: t.a.revise(0, selecting("env=prod"), sentRules, t.said)})
	return seq, err
}

// once publishes a revision and waits until every node's message is here.
func (t *telling) once(ctx context.Context) (took time.Duration, cpu float64, err error) {
	used, err := t.s.cpuSeconds()
	if err != nil {
		return 0, 0, err
	}
	t.ear.reset()
	began := time.Now()
	seq, err := t.revise(ctx)
	if err != nil {
		return 0, 0, err
	}
	if err := t.ear.await(ctx, t.nodes); err != nil {
		return 0, 0, err
	}
	took = time.Since(began)
	// A pull says that it is folded; a status would count every node.
	if err := t.s.folded(ctx, nodeName(0), seq); err != nil {
		return 0, 0, err
	}
	now, err := t.s.cpuSeconds()
	return took, now - used, err
}

// first has every message of one revision kept, and held against what it must be.
func (t *telling) first(ctx context.Context) (err error) {
	if _, err := t.s.settled(ctx); err != nil {
		return err
	}
	t.ear.keep(t.nodes)
	if _, _, err = t.once(ctx); err != nil {
		return err
	}
	t.same, err = t.ear.kept()
	if err != nil {
		return err
	}
	return t.check()
}

// check wants one message a node, all of one id, and some of them verified.
func (t *telling) check() error {
	key, err := artifact.LoadSigner(t.s.signingKey)
	if err != nil {
		return err
	}
	trust := artifact.NewTrustSet()
	if err := trust.Add(artifact.PlanePolicy, key.KeyID(), key.PublicKey(), time.Time{}); err != nil {
		return err
	}
	seen, ids := map[string]bool{}, map[string]bool{}
	for i, k := range t.same.msgs {
		seen[k.subject] = true
		ids[strings.Join(k.header[headerEventID], ",")] = true
		const oneIn = 97
		if i%oneIn == 0 {
			if _, err := trust.Open(t.same.body(k)); err != nil {
				return fmt.Errorf("%s: %w", k.subject, err)
			}
		}
	}
	if len(seen) != t.nodes || len(t.same.msgs) != t.nodes || len(ids) != 1 {
		return fmt.Errorf("%d messages on %d subjects with %d ids came of one revision for %d nodes", len(t.same.msgs), len(seen), len(ids), t.nodes)
	}
	return nil
}

// round takes each figure once, the floors beside the product.
func (t *telling) round(ctx context.Context, f *floors) error {
	took, cpu, err := t.once(ctx)
	if err != nil {
		return err
	}
	t.got.rate(t.nodes, took)
	t.cpu = append(t.cpu, cpu)
	if took, cpu, err = f.plain.publish(ctx, t.nodes); err != nil {
		return fmt.Errorf("floor: %w", err)
	}
	t.bare.rate(t.nodes, took)
	t.bareCPU = append(t.bareCPU, cpu)
	if _, cpu, err = f.signed.publish(ctx, t.nodes); err != nil {
		return fmt.Errorf("floor: %w", err)
	}
	t.signedCPU = append(t.signedCPU, cpu)
	say("  %s msg/s, floor %s; CPU %s s a revision, %s s plainly, %s s with a signature each", short(last(t.got)), short(last(t.bare)),
		short(last(t.cpu)), short(last(t.bareCPU)), short(last(t.signedCPU)))
	return nil
}

// unheard measures the same when nobody listens.
func (t *telling) unheard(ctx context.Context, e *env) error {
	t.ear.close()
	if err := backoff.Sleep(ctx, quietly); err != nil {
		return err
	}
	for range e.rounds() {
		used, err := t.s.cpuSeconds()
		if err != nil {
			return err
		}
		var seq uint64
		for range unheardTimes {
			if seq, err = t.revise(ctx); err != nil {
				return err
			}
		}
		if err := t.s.folded(ctx, nodeName(0), seq); err != nil {
			return err
		}
		if err := backoff.Sleep(ctx, quietly/4); err != nil {
			return err
		}
		now, err := t.s.cpuSeconds()
		if err != nil {
			return err
		}
		t.silent = append(t.silent, (now-used)/unheardTimes)
	}
	return nil
}

func (t *telling) lines() []line {
	l := figure("told", "msg/s", t.got).beside("the same bytes published plainly, unsigned, to the same listener", t.bare).ratioAtLeast(0.7)
	l.note("%s msg/s is five times what the plane sent that stored each message, on the machine of the prototype", grouped(5*storedRate))
	l.note("%s nodes of %d label sets, %d rules, %d bytes a message with its headers; strict durability, signed", grouped(int64(t.nodes)), sentSets, sentRules, t.same.mean())
	c := figure("CPU of a revision", "core-s", t.cpu).beside("the same bytes published plainly, unsigned: the server's part included", t.bareCPU).ratioAtMost(maxPlainCPU)
	signed := figure("CPU of a revision", "core-s", t.cpu).beside("the same, with one ed25519 signature each", t.signedCPU)
	q := figure("CPU when nobody listens", "core-s", t.silent).beside("with the listener", t.cpu).ratioAtMost(0.05)
	q.note("of %d revisions, one after the other, with half a second after the last, for what may come late, and one pull that says that it is folded", unheardTimes)
	return []line{*l, *c, *signed, *q}
}

// registerFleet registers n nodes that no policy matches yet.
func registerFleet(ctx context.Context, s *served, a *author, n int) error {
	const chunk = 10_000
	for from := 0; from < n; from += chunk {
		var events []policy.Event
		for i := from; i < min(from+chunk, n); i++ {
			events = append(events, a.node(i, labelled("env", "prod", "set", fmt.Sprintf("s%d", i%sentSets))))
		}
		if err := s.publish(ctx, events); err != nil {
			return err
		}
	}
	return nil
}

// allNodes matches every message for a node.
const allNodes = "edict.node.>"

const headerEventID = "Edict-Event-Id"

// ear is a listener over NATS that does as little as one can: it counts.
type ear struct {
	conn *nats.Conn
	sub  *nats.Subscription
	n    atomic.Int64
	wake chan struct{}
	room *capture // of the messages, while they are kept
	full error
}

func listen(url, subject string) (*ear, error) {
	conn, err := nats.Connect(url, nats.Name("listener"))
	if err != nil {
		return nil, err
	}
	l := &ear{conn: conn, wake: make(chan struct{}, 1)}
	if l.sub, err = conn.Subscribe(subject, l.heard); err == nil {
		err = l.sub.SetPendingLimits(-1, -1)
	}
	if err == nil {
		err = conn.Flush()
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return l, nil
}

func (l *ear) close() { l.conn.Close() }

// heard counts a message. One goroutine calls it.
func (l *ear) heard(m *nats.Msg) {
	if l.room != nil && l.full == nil {
		l.full = l.room.add(m)
	}
	l.n.Add(1)
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *ear) reset() { l.n.Store(0) }

// keep has the messages kept that come from now on, n of them.
func (l *ear) keep(n int) {
	const most = 16 << 10 // of one
	room, err := newCapture(n * most)
	l.room, l.full = room, err
}

// kept are the messages that came, all of which must have been heard.
func (l *ear) kept() (*capture, error) {
	room, err := l.room, l.full
	l.room = nil
	return room, err
}

// await returns when n messages were heard; more than n are an error.
func (l *ear) await(ctx context.Context, n int) error {
	for l.n.Load() < int64(n) {
		select {
		case <-l.wake:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d messages came: %w", l.n.Load(), n, ctx.Err())
		}
	}
	if got := l.n.Load(); got > int64(n) {
		return fmt.Errorf("%d messages came of %d", got, n)
	}
	return nil
}
