package main

import (
	"context"
	"errors"
	"time"
)

const (
	lightPace   = 10 * time.Millisecond // between events for one client each
	lightEvents = 1_000
)

// light measures how late an event is that nothing stands before: from the log's
// acknowledgement, strict, until the one client it is for has it, with all clients
// connected. The floor is the plain hub, from its answer.
func light(ctx context.Context, e *env) ([]line, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	plane, err := planeStage(ctx, e, true)
	if err != nil {
		return nil, err
	}
	plain, err := hubStage(ctx, e, func() int { return plane.crowd.eventBytes() })
	if err != nil {
		return nil, errors.Join(err, plane.close())
	}
	lines, err := lightOn(ctx, e, plane, plain)
	return lines, errors.Join(err, plane.close(), plain.close())
}

func lightOn(ctx context.Context, e *env, plane, plain *stage) ([]line, error) {
	var p50, p99 [2]samples
	for _, s := range []*stage{plane, plain} {
		s.crowd.keep = true
	}
	for range e.rounds() {
		for i, s := range []*stage{plane, plain} {
			late, err := s.lightly(ctx, e.scale(lightEvents))
			if err != nil {
				return nil, err
			}
			p50[i], p99[i] = append(p50[i], late.at(0.5)), append(p99[i], late.at(0.99))
		}
		say("  p50 %s ms, p99 %s ms; hub %s and %s", short(last(p50[0])), short(last(p99[0])), short(last(p50[1])), short(last(p99[1])))
	}
	const floor = "a plain hub, from its answer to the publisher"
	l := figure("acknowledged to client, p50", "ms", p50[0]).beside(floor, p50[1]).atMost(3)
	l.note("strict durability; %s connections, an event for one of them every %s, %s of them; an event may come before its publisher has the acknowledgement, which counts as 0",
		grouped(clients), lightPace, grouped(int64(e.scale(lightEvents))))
	return []line{*l, *figure("acknowledged to client, p99", "ms", p99[0]).beside(floor, p99[1])}, nil
}

// lightly sends n events one after the other, and says how late each came.
func (s *stage) lightly(ctx context.Context, n int) (late samples, err error) {
	s.forget()
	if err := s.crowd.connect(ctx, connectAtOnce, false); err != nil {
		return nil, err
	}
	defer s.crowd.part()
	if err := errors.Join(s.sendAll(ctx, 1), s.crowd.await(ctx, clients)); err != nil {
		return nil, err
	}
	send := s.toEach(n)
	tick := time.NewTicker(lightPace)
	defer tick.Stop()
	for i := range n {
		<-tick.C
		cause, err := send(ctx, i)
		if err != nil {
			return nil, err
		}
		s.expect(cause, time.Now(), i%clients)
	}
	if err := s.crowd.await(ctx, clients+n); err != nil {
		return nil, err
	}
	s.crowd.part()
	if err := s.crowd.check(s.want); err != nil {
		return nil, err
	}
	each, _ := s.latencies()
	for i := range each {
		each[i] = max(each[i], 0)
	}
	return each, nil
}
