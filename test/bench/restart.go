package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/edictdev/edict/policy"
)

const (
	restartNodes = 1_000_000
	restartEach  = 2 // policies, all of which every node matches
	restartSets  = 50
)

// restart measures how long a plane of many nodes needs to answer again after
// it was stopped in order, and what it holds in memory then.
func restart(ctx context.Context, e *env) ([]line, error) {
	ctx, cancel := context.WithTimeout(ctx, 40*time.Minute)
	defer cancel()
	nodes := e.scale(restartNodes)
	if err := restartFill(ctx, e, nodes); err != nil {
		return nil, err
	}
	var took, resident samples
	for round := range e.rounds() {
		began := time.Now()
		s, err := serveEdict(ctx, e)
		if err != nil {
			return nil, err
		}
		took = append(took, time.Since(began).Seconds())
		_, most, err := s.resident()
		if err == nil {
			resident = append(resident, most/(1<<20))
			err = s.complete(ctx, nodes)
		}
		if err := errors.Join(err, s.close()); err != nil {
			return nil, err
		}
		say("  round %d: ready after %s s, %s MiB at most until then", round+1, short(took[round]), short(resident[round]))
	}
	l := figure("to ready", "s", took).atMost(4)
	l.note("%s nodes in %d label sets, %d policies that all of them match; the start includes the log's server", grouped(int64(nodes)), restartSets, restartEach)
	return []line{*l, *figure("resident at most until then", "MiB", resident).atMost(500)}, nil
}

// restartFill makes the plane, and waits until all of it is folded.
func restartFill(ctx context.Context, e *env, nodes int) error {
	s, err := serveEdict(ctx, e, "--durability", "relaxed")
	if err != nil {
		return err
	}
	a := newAuthor(7)
	var events []policy.Event
	for i := range nodes {
		events = append(events, a.node(i, labelled("env", "prod", "set", fmt.Sprintf("s%d", i%restartSets))))
		const chunk = 10_000
		if len(events) >= chunk || i == nodes-1 {
			if err = s.publish(ctx, events); err != nil {
				break
			}
			events = events[:0]
		}
	}
	if err == nil {
		err = s.publish(ctx, []policy.Event{a.revise(0, selecting("env=prod"), 1, 0), a.revise(1, selecting("set"), 1, 1)})
	}
	say("  the log is written")
	if err == nil {
		err = s.complete(ctx, nodes)
	}
	say("  everything is folded")
	return errors.Join(err, s.close())
}

// complete wants every node and its rows.
func (s *served) complete(ctx context.Context, nodes int) error {
	st, err := s.settled(ctx)
	if err != nil {
		return err
	}
	if st.Nodes != nodes || st.Policies != restartEach {
		return fmt.Errorf("the plane has %d nodes and %d policies, not %d and %d", st.Nodes, st.Policies, nodes, restartEach)
	}
	return s.rows(ctx, nodes, restartEach)
}
