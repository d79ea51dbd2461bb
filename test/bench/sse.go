package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	sseEvents     = 10 // to every client, at each round: 10,000 over 1,000 connections
	fanOuts       = 5  // so often a round of events for everybody is poured: one alone takes a tenth of a second
	connectAtOnce = 64
	// settle is how long a server is left alone before its memory is read.
	settle = time.Second
)

// sse measures events from their publication until the last client has its
// last: for the product through the log, the fold and its hub, signed; for the
// floor through a map in memory. The load is that of the field's
// own comparisons: message n goes to client n mod 1,000, from 8 publishers.
// Beside it, the load a policy plane has: few events, each for every client.
func sse(ctx context.Context, e *env) ([]line, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	plane, plain, err := stages(ctx, e, true)
	if err != nil {
		return nil, err
	}
	lines, err := sseOn(ctx, e, plane, plain)
	if err == nil {
		plane.crowd.accept = eventStream
		var field []line
		field, err = sseOn(ctx, e, plane, plain)
		for _, l := range field {
			lines = append(lines, *l.forField())
		}
	}
	if err = errors.Join(err, plane.close(), plain.close()); err != nil {
		return lines, err
	}
	memory, err := perConnection(ctx, e)
	if err != nil {
		return lines, err
	}
	return append(lines, *memory), nil
}

func sseOn(ctx context.Context, e *env, plane, plain *stage) ([]line, error) {
	each, all, err := pour(ctx, e, plane, plain)
	if err != nil {
		return nil, err
	}
	return sseLines(plane, plain, each, all), nil
}

// forField makes a line one of the field's agents, who take one plain signature
// a frame. They have no target.
func (l *line) forField() *line {
	l.What, l.Targets = strings.TrimSpace(l.What+" to the field's agents"), nil
	l.Notes = l.Notes[max(0, len(l.Notes)-1):]
	return l.note("one signature for each event and node, as the field's agents read it")
}

// poured is how events came: how many a second, and what the server used of a
// core for each, in microseconds.
type poured struct{ rate, cpu samples }

// pour sends events to the crowds of two stages, in turn, and returns how they
// came: events for one client each, and events for everybody.
func pour(ctx context.Context, e *env, one, other *stage) (each, all [2]poured, err error) {
	both := []*stage{one, other}
	for _, s := range both {
		s.forget()
		s.crowd.keep = true
		if err := s.crowd.connect(ctx, connectAtOnce, false); err != nil {
			return each, all, err
		}
		defer s.crowd.part()
	}
	// One event that is not measured: the hub's take their size from it.
	for _, s := range both {
		if err := s.sendAll(ctx, 1); err != nil {
			return each, all, err
		}
		if err := s.crowd.await(ctx, clients); err != nil {
			return each, all, err
		}
	}
	for range e.rounds() {
		for i, s := range both {
			if err := s.round(ctx, &each[i], 1, s.oneEach()); err != nil {
				return each, all, err
			}
		}
		for i, s := range both {
			if err := s.round(ctx, &all[i], fanOuts, s.fanOut); err != nil {
				return each, all, err
			}
		}
		say("  one each: %s events/s, floor %s; fan-out: %s, floor %s", short(last(each[0].rate)), short(last(each[1].rate)), short(last(all[0].rate)), short(last(all[1].rate)))
		say("  the server's CPU an event: one each %s us, floor %s; fan-out: %s, floor %s", short(last(each[0].cpu)), short(last(each[1].cpu)), short(last(all[0].cpu)), short(last(all[1].cpu)))
	}
	for _, s := range both {
		s.crowd.part()
		if err := s.crowd.check(s.want); err != nil {
			return each, all, err
		}
	}
	return each, all, nil
}

func last(s samples) float64 { return s[len(s)-1] }

// oneEach prepares a round of events for one client each.
func (s *stage) oneEach() func(context.Context) error {
	send := s.toEach(sseEvents * clients)
	return func(ctx context.Context) error { return s.sendEach(ctx, sseEvents*clients, send) }
}

// fanOut is a round of events for everybody.
func (s *stage) fanOut(ctx context.Context) error { return s.sendAll(ctx, sseEvents) }

// round publishes as fast as it is taken and waits for the last client, so many times.
func (s *stage) round(ctx context.Context, to *poured, times int, publish func(context.Context) error) error {
	used, err := s.cpuSeconds()
	if err != nil {
		return err
	}
	began := time.Now()
	for range times {
		want := int(s.crowd.heard.Load()) + sseEvents*clients
		if err := publish(ctx); err != nil {
			return err
		}
		if err := s.crowd.await(ctx, want); err != nil {
			return err
		}
	}
	events := times * sseEvents * clients
	to.rate.rate(events, time.Since(began))
	now, err := s.cpuSeconds()
	const micro = 1e6
	to.cpu = append(to.cpu, (now-used)*micro/float64(events))
	return err
}

// latencies are from an event's publication to its arrival, in ms; those of
// events for everybody apart. The crowd must have parted.
func (s *stage) latencies() (each, all samples) {
	heard := map[uint64]int{}
	for _, m := range s.crowd.members {
		for _, a := range m.times {
			heard[a.cause]++
		}
	}
	for _, m := range s.crowd.members {
		for _, a := range m.times {
			ms := float64(a.at.Sub(s.began[a.cause]).Microseconds()) / 1000
			if heard[a.cause] == 1 {
				each = append(each, ms)
			} else {
				all = append(all, ms)
			}
		}
	}
	return each, all
}

func sseLines(plane, plain *stage, each, all [2]poured) []line {
	ourEach, ourAll := plane.latencies()
	hubEach, hubAll := plain.latencies()
	const floor = "a plain hub in memory, unsigned events of the same size, in a process of its own"
	one := figure("one each", "events/s", each[0].rate).beside(floor, each[1].rate).ratioAtLeast(0.6)
	one.note("%s connections; %s publications, number n for client n mod %d, %d publishers; %d bytes of data an event; relaxed durability",
		grouped(clients), grouped(sseEvents*clients), clients, publishers, plane.crowd.eventBytes())
	one.note("publication to client, as fast as it is taken: p50 %s ms, p99 %s ms (hub: %s and %s)",
		short(ourEach.at(0.5)), short(ourEach.at(0.99)), short(hubEach.at(0.5)), short(hubEach.at(0.99)))
	many := figure("fan-out", "events/s", all[0].rate).beside(floor, all[1].rate).ratioAtLeast(0.6)
	many.note("fan-out: %d times %d publications, each for every client: p50 %s ms, p99 %s ms (hub: %s and %s)",
		fanOuts, sseEvents, short(ourAll.at(0.5)), short(ourAll.at(0.99)), short(hubAll.at(0.5)), short(hubAll.at(0.99)))
	const used = "what the hub uses"
	oneCPU := figure("one each, the server's CPU", "us an event", each[0].cpu).beside(used, each[1].cpu)
	manyCPU := figure("fan-out, the server's CPU", "us an event", all[0].cpu).beside(used, all[1].cpu)
	return []line{*one, *oneCPU, *many, *manyCPU}
}

// perConnection has two new processes do the same work, one of them before
// open streams: the difference is theirs.
func perConnection(ctx context.Context, e *env) (*line, error) {
	alone, err := servingMemory(ctx, e, "alone", false)
	if err != nil {
		return nil, err
	}
	crowded, err := servingMemory(ctx, e, "crowded", true)
	if err != nil {
		return nil, err
	}
	const kib, mib = 1 << 10, 1 << 20
	l := figure("memory", "KiB/connection", samples{(crowded - alone) / clients / kib}).atMost(40)
	return l.note("memory: the server holds %s MiB after %d events to %s clients, %s MiB after the same events to nobody",
		short(crowded/mib), sseEvents, grouped(clients), short(alone/mib)), nil
}

// servingMemory is what a new process holds after events, with or without
// clients.
func servingMemory(ctx context.Context, e *env, name string, crowded bool) (bytes float64, err error) {
	own := *e
	own.dir = filepath.Join(e.dir, name)
	if err := os.Mkdir(own.dir, 0o700); err != nil {
		return 0, err
	}
	s, err := planeStage(ctx, &own, false)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if crowded {
		if err := s.crowd.connect(ctx, connectAtOnce, false); err != nil {
			return 0, err
		}
		defer s.crowd.part()
	}
	if err := s.sendAll(ctx, sseEvents); err != nil {
		return 0, err
	}
	if crowded {
		if err := s.crowd.await(ctx, sseEvents*clients); err != nil {
			return 0, err
		}
	}
	if err := s.quiet(ctx); err != nil {
		return 0, err
	}
	time.Sleep(settle)
	bytes, _, err = s.resident()
	return bytes, err
}
