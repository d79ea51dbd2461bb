package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	stormMissed = 5
	// stormAfter is how long the crowd listens for what must not come.
	stormAfter = 300 * time.Millisecond
)

// storm measures from the moment every client comes back at once until each has
// the events it missed, and then checks that it got each of them once.
func storm(ctx context.Context, e *env) ([]line, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	plane, plain, err := stages(ctx, e, false)
	if err != nil {
		return nil, err
	}
	lines, err := stormOn(ctx, e, plane, plain)
	return lines, errors.Join(err, plane.close(), plain.close())
}

func stormOn(ctx context.Context, e *env, plane, plain *stage) ([]line, error) {
	for _, s := range []*stage{plane, plain} {
		if err := meet(ctx, s); err != nil {
			return nil, err
		}
	}
	var ours, floor samples
	for range e.rounds() + 2 { // short, so a few more of them
		for _, x := range []struct {
			s  *stage
			to *samples
		}{{plane, &ours}, {plain, &floor}} {
			took, err := stormOnce(ctx, x.s)
			if err != nil {
				return nil, err
			}
			*x.to = append(*x.to, float64(took.Microseconds())/1000)
		}
	}
	say("  %s ms, hub %s ms", short(ours.median()), short(floor.median()))
	l := figure("", "ms", ours).beside("a plain hub that has the past in memory", floor).ratioAtMost(1.5)
	if n := plane.crowd.refused.Load(); n > 0 {
		l.note("%d streams were answered 503 and had to come again after a second", n)
	}
	return []line{*l.note("%s clients, %d missed events of %d bytes each; nothing lost, nothing twice", grouped(clients), stormMissed, plane.crowd.eventBytes())}, nil
}

// meet gives every client a place to come back to: one event.
func meet(ctx context.Context, s *stage) error {
	defer s.crowd.part()
	if err := s.crowd.connect(ctx, connectAtOnce, false); err != nil {
		return err
	}
	if err := s.sendAll(ctx, 1); err != nil {
		return err
	}
	return s.crowd.await(ctx, clients)
}

// stormOnce sends events to nobody, then has the whole crowd come for them.
func stormOnce(ctx context.Context, s *stage) (time.Duration, error) {
	s.forget()
	if err := s.sendAll(ctx, stormMissed); err != nil {
		return 0, err
	}
	if err := s.quiet(ctx); err != nil {
		return 0, err
	}
	defer s.crowd.part()
	began := time.Now()
	if err := s.crowd.connect(ctx, clients, true); err != nil {
		return 0, err
	}
	if err := s.crowd.await(ctx, stormMissed*clients); err != nil {
		return 0, err
	}
	took := time.Since(began)
	time.Sleep(stormAfter)
	s.crowd.part()
	if err := s.crowd.check(s.want); err != nil {
		return 0, fmt.Errorf("after a storm: %w", err)
	}
	return took, nil
}
