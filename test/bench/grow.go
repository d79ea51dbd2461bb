package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// What an event costs the fold must not grow with what came before it.
const (
	growNodes  = 1_000
	growEvents = 300
)

// grow measures the events of nodes that change their labels again and again, beside the
// first events of other nodes, in turn. These lie between them in the order of the store's
// keys: what is new costs less at the end of a memory table, and in an empty one, whoever it
// is of, and that is no matter of a node's history.
func grow(_ context.Context, e *env) (lines []line, err error) {
	t, err := newTouching()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	a := newAuthor(8)
	node := func(i int) policy.Event {
		return a.node(i%growNodes*2, labelled("app", fmt.Sprintf("a%d", i%growNodes%10), "turn", fmt.Sprintf("t%d", i/growNodes%2)))
	}
	empty, err := t.time(growNodes, node)
	if err != nil {
		return nil, err
	}
	if err := t.fill(growEvents*growNodes, func(i int) policy.Event { return node(growNodes + i) }); err != nil {
		return nil, err
	}
	both, err := t.time(2*growNodes, func(i int) policy.Event {
		if i%2 == 0 {
			return node((growEvents+1)*growNodes + i/2)
		}
		return a.node(i, labelled("app", fmt.Sprintf("a%d", i/2%10), "turn", "t0"))
	})
	if err != nil {
		return nil, err
	}
	var first, last samples
	for i := 0; i < len(both); i += 2 {
		last, first = append(last, both[i]), append(first, both[i+1])
	}
	l := figure(fmt.Sprintf("after %d others of its node", growEvents), "us", last).beside("the first event of another node, in the same store", first).ratioAtMost(1.2)
	return []line{*l.note("p99 %s us, of a first %s us; %d nodes, whose own first events, into an empty store, took %s us",
		short(last.at(0.99)), short(first.at(0.99)), growNodes, short(empty.median()))}, nil
}

// relabelLists measures a label set that is new, beside selectors that each list
// values of one key, and beside few policies that all match.
func relabelLists(_ context.Context, e *env) ([]line, error) {
	n := e.scale(touchPolicies)
	listed, err := relabelAmong(n, 2, func(i int) string { return fmt.Sprintf("zone in (z%d,z%d)", i, (i+1)%n) },
		func(i, of int) policy.Labels {
			return labelled("zone", fmt.Sprintf("z%d", i%of), "turn", fmt.Sprint(i))
		})
	if err != nil {
		return nil, err
	}
	const matching = 300
	all, err := relabelAmong(matching, matching, func(i int) string { return fmt.Sprintf("alpha=beta,!set-%d", i) },
		func(i, _ int) policy.Labels { return labelled("alpha", "beta", "turn", fmt.Sprint(i)) })
	if err != nil {
		return nil, err
	}
	return []line{
		*figure(fmt.Sprintf("%s list values of one key", grouped(int64(n))), "us", listed).atMost(15).note("lists: p99 %s us; two match", short(listed.at(0.99))),
		*figure(fmt.Sprintf("%d match, before and after", matching), "us", all).atMost(60).note("%d match: p99 %s us", matching, short(all.at(0.99))),
	}, nil
}

// million measures a fleet in which each node has a label of its own: a policy that
// one node in fifty matches, revised and new.
func million(ctx context.Context, e *env) (lines []line, err error) {
	nodes := e.scale(1_000_000)
	born := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	p, err := projector.Open(filepath.Join(e.dir, "store"), projector.Options{Partitions: partitions, Created: born})
	if err != nil {
		return nil, err
	}
	t := &touching{folding{Projector: p, at: born}}
	defer func() { err = errors.Join(err, t.Close()) }()
	a := newAuthor(9)
	if err := t.fill(nodes, func(i int) policy.Event {
		return a.node(i, labelled("host", fmt.Sprintf("h%d", i), "set", fmt.Sprintf("s%d", i%reviseSets)))
	}); err != nil {
		return nil, err
	}
	p.Feed(forgetful{})
	const times = 101
	fresh, err := t.time(times, func(i int) policy.Event {
		return a.revise(i, selecting(fmt.Sprintf("set=s%d,!turn-%d", i%reviseSets, i)), 1, i)
	})
	if err != nil {
		return nil, err
	}
	revised, err := t.time(times, func(i int) policy.Event {
		return a.revise(i, selecting(fmt.Sprintf("set=s%d,!turn-%d", i%reviseSets, i)), 1, times+i)
	})
	if err != nil {
		return nil, err
	}
	moved, err := t.time(times, func(i int) policy.Event {
		return a.node(i*reviseSets, labelled("host", fmt.Sprintf("h%d", i*reviseSets), "set", fmt.Sprintf("s%d", (i+1)%reviseSets)))
	})
	if err != nil {
		return nil, err
	}
	d, err := t.Digest(ctx)
	if err == nil && d.Seq != t.seq {
		err = fmt.Errorf("the fold stands at %d, not at %d", d.Seq, t.seq)
	}
	matched := grouped(int64(nodes / reviseSets))
	return []line{
		*figure("a policy of "+matched+", revised", "us", revised).atMost(150).note("revised: p99 %s us", short(revised.at(0.99))),
		*figure("a policy of "+matched+", new", "us", fresh).atMost(300).note("new: p99 %s us", short(fresh.at(0.99))),
		*figure("one node's labels", "us", moved).atMost(150).note("labels: p99 %s us", short(moved.at(0.99))),
	}, err
}
