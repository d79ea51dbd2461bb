package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// What one event costs the fold when there is much that it might touch: edges
// made, decoding included, every event in a batch of its own, into a store in
// memory.
const (
	touchPolicies   = 10_000
	touchIdentities = 100_000
	touchTimes      = 501
)

// touching feeds a fold one event at a time and times it.
type touching struct{ folding }

func newTouching() (*touching, error) {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	p, err := projector.Open("store", projector.Options{Partitions: partitions, Created: at}.On(vfs.NewMem()))
	if err != nil {
		return nil, err
	}
	p.Feed(forgetful{})
	return &touching{folding{Projector: p, at: at}}, nil
}

// forgetful has edges made, and forgets them.
type forgetful struct{}

func (forgetful) Wanted() bool         { return true }
func (forgetful) Take(projector.Batch) {}

// fill folds events that are not timed.
func (t *touching) fill(n int, event func(i int) policy.Event) error {
	for i := range n {
		t.msgs = append(t.msgs, t.message(event(i)))
		if len(t.msgs) == 1000 || i == n-1 {
			if err := t.Apply(t.msgs); err != nil {
				return err
			}
			t.msgs = t.msgs[:0]
		}
	}
	return nil
}

// time folds events one by one; microseconds each.
func (t *touching) time(times int, event func(i int) policy.Event) (took samples, err error) {
	for i := range times {
		m := []streams.Message{t.message(event(i))}
		began := time.Now()
		if err := t.Apply(m); err != nil {
			return nil, err
		}
		took = append(took, float64(time.Since(began).Nanoseconds())/1e3)
	}
	return took, nil
}

// rows wants node i to have n rows.
func (t *touching) rows(i, n int) error {
	r, ok := store{t.Projector}.Rows(nodeName(i))
	if !ok || len(r.Rows) != n {
		return fmt.Errorf("node %d has %d rows, not %d", i, len(r.Rows), n)
	}
	return nil
}

func both(text string) policy.Selector {
	s := selecting(text)
	s.Destination = s.Source
	return s
}

// relabel measures a node that changes its labels, beside policies that all
// share a term: those that match it are few, or all of them.
func relabel(_ context.Context, e *env) ([]line, error) {
	few, err := relabelAmong(e.scale(touchPolicies), 1, func(i int) string { return fmt.Sprintf("alpha=beta,set-%d", i) },
		func(i, of int) policy.Labels { return labelled("alpha", "beta", fmt.Sprintf("set-%d", i%of), "x") })
	if err != nil {
		return nil, err
	}
	all, err := relabelAmong(e.scale(touchPolicies), e.scale(touchPolicies), func(i int) string { return fmt.Sprintf("alpha=beta,!set-%d", i) },
		func(i, _ int) policy.Labels { return labelled("alpha", "beta", "turn", fmt.Sprint(i)) })
	if err != nil {
		return nil, err
	}
	return []line{
		*figure("one policy matches", "us", few).atMost(20).note("one: p99 %s us; every label set is new to the fold", short(few.at(0.99))),
		*figure("all match, before and after", "us", all).atMost(40_000).note("all: p99 %s us; every label set is new to the fold, and the one before is forgotten", short(all.at(0.99))),
	}, nil
}

func relabelAmong(policies, match int, selector func(i int) string, labels func(i, of int) policy.Labels) (took samples, err error) {
	t, err := newTouching()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	a := newAuthor(5)
	if err := t.fill(policies, func(i int) policy.Event { return a.revise(i, both(selector(i)), 1, i) }); err != nil {
		return nil, err
	}
	if err := t.fill(1, func(int) policy.Event { return a.node(0, labels(policies-1, policies)) }); err != nil {
		return nil, err
	}
	took, err = t.time(touchTimes, func(i int) policy.Event { return a.node(0, labels(i, policies)) })
	if err != nil {
		return nil, err
	}
	return took, t.rows(0, match)
}

// newPolicy measures a policy that is new to a plane of many label sets: one
// whose terms the index knows, and one that asks for no label at all.
func newPolicy(_ context.Context, e *env) (lines []line, err error) {
	n := e.scale(touchIdentities)
	t, err := newTouching()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	a := newAuthor(6)
	if err := t.fill(n, func(i int) policy.Event {
		return a.node(i, labelled("app", fmt.Sprintf("a%d", i%(n/100)), "host", fmt.Sprintf("h%d", i)))
	}); err != nil {
		return nil, err
	}
	next := 0
	publish := func(selector func(i int) string) func(int) policy.Event {
		return func(i int) policy.Event {
			next++
			return a.revise(next, both(selector(i)), 1, i)
		}
	}
	known, err := t.time(touchTimes, publish(func(i int) string { return fmt.Sprintf("app=a%d,!turn-%d", i%(n/100), i) }))
	if err != nil {
		return nil, err
	}
	const few = 21 // each leaves as many memberships as there are label sets
	none, err := t.time(few, publish(func(i int) string { return fmt.Sprintf("app!=a%d,!turn-%d", i%(n/100), i) }))
	if err != nil {
		return nil, err
	}
	// Every node: the policies of its app, and all that ask for no label but
	// the one that is not for its app.
	last := n/100 - 1
	own := touchTimes / (n / 100)
	if last < touchTimes%(n/100) {
		own++
	}
	if err := t.rows(last, own+few-boolInt(last < few)); err != nil {
		return nil, err
	}
	sets := grouped(int64(n))
	return []line{
		*figure("100 of "+sets+" label sets match", "us", known).atMost(100).note("indexable: p99 %s us", short(known.at(0.99))),
		*figure("nearly all match, no term to go by", "us", none).atMost(400_000).note("not indexable: at most %s us", short(none.at(1))),
	}, nil
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
