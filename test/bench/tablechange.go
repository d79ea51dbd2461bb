package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"

	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// What one event costs those who watch tables, the fold of it included: a large
// project, one ordered policy from one node to all, and every node followed. So
// the table of one node has all of the others, and the tables of those are alike.
const (
	changeNodes   = 100_000
	changeSets    = 1_000
	changeTimes   = 101
	changeOrdered = 0 // the numbers of the policies
	changePlain   = 1
)

// changing is a project and a watch of its tables.
type changing struct {
	*touching
	a      *author
	tables *snapshot.Tables
	watch  *snapshot.Watch
	nodes  int
}

// tableChanges measures a label change, an ordered and a plain revision, and a
// table made from the facts.
func tableChanges(ctx context.Context, e *env) (lines []line, err error) {
	t, err := newTouching()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	w := &changing{touching: t, a: newAuthor(31), nodes: e.scale(changeNodes)}
	if err := w.begin(ctx); err != nil {
		return nil, err
	}
	// The last node is a peer of node 0, which alone enforces.
	peer := func(i int) policy.Event { return w.a.node(w.nodes-1, w.labels(i+1)) }
	label, err := w.times(ctx, changeTimes, 1, peer)
	if err != nil {
		return nil, err
	}
	ordered, err := w.times(ctx, changeTimes/10, 0, func(i int) policy.Event { return w.ordered(i + 1) })
	if err != nil {
		return nil, err
	}
	plain, err := w.times(ctx, changeTimes, 0, func(i int) policy.Event { return w.a.revise(changePlain, both("set=s1"), 2, i+1) })
	if err != nil {
		return nil, err
	}
	rebuilt, err := w.rebuilds(ctx, peer)
	if err != nil {
		return nil, err
	}
	what := grouped(int64(w.nodes)) + " nodes, one ordered policy: "
	return []line{
		*figure(what+"a peer's labels", "ms CPU", label).beside("the table made from the facts", rebuilt).atMost(1).note("p99 %s ms", short(label.at(0.99))),
		*figure(what+"an ordered revision", "ms CPU", ordered).beside("the table made from the facts", rebuilt).note("p99 %s ms", short(ordered.at(0.99))),
		*figure(what+"a plain revision", "ms CPU", plain).atMost(2).note("p99 %s ms", short(plain.at(0.99))),
		*w.memory(),
	}, nil
}

func (w *changing) labels(i int) policy.Labels {
	return labelled("env", "prod", "set", fmt.Sprintf("s%d", i%changeSets))
}

// ordered is a revision of the ordered policy.
func (w *changing) ordered(i int) policy.Event {
	sides := both("env=prod")
	sides.Source = selecting("only=here").Source
	ev := w.a.revise(changeOrdered, sides, 4, i)
	ev.Revision.Order = policy.Order{Tier: policy.Admin}
	for n := range ev.Revision.Rules {
		r := &ev.Revision.Rules[n]
		r.SourceSelector, r.DestinationSelector = "only=here", "env=prod"
		r.Source, r.Destination = netip.Prefix{}, netip.Prefix{}
	}
	return ev
}

func (w *changing) begin(ctx context.Context) error {
	err := w.fill(w.nodes, func(i int) policy.Event {
		if i == 0 {
			return w.a.node(0, labelled("env", "prod", "only", "here"))
		}
		return w.a.node(i, w.labels(i))
	})
	if err == nil {
		err = w.fill(2, func(i int) policy.Event {
			if i == changePlain {
				return w.a.revise(changePlain, both("set=s1"), 2, 0)
			}
			return w.ordered(0)
		})
	}
	if err != nil {
		return err
	}
	w.tables = snapshot.NewTables(w.Projector, snapshot.TableOptions{})
	w.watch = snapshot.NewWatch(w.Projector, w.tables, slog.New(slog.DiscardHandler))
	for i := range w.nodes {
		w.watch.Follow(nodeName(i), false, w.seq)
	}
	_, _, _, err = w.watch.Look(ctx)
	runtime.GC() // what the fill left is nobody's cost
	return err
}

// times folds events, each with a look after it: milliseconds of all cores each.
func (w *changing) times(ctx context.Context, n, least int, event func(i int) policy.Event) (took samples, err error) {
	for i := range n {
		m := []streams.Message{w.message(event(i))}
		before := cpuSeconds()
		if err := w.Apply(m); err != nil {
			return nil, err
		}
		seq, all, asked, err := w.watch.Look(ctx)
		took = append(took, 1e3*(cpuSeconds()-before))
		if err != nil {
			return nil, err
		}
		if seq != w.seq || len(all)+len(asked) > w.nodes || len(all) < least {
			return nil, fmt.Errorf("event %d: the look ends at %d and tells %d nodes, not %d", w.seq, seq, len(all), least)
		}
	}
	return took, nil
}

// rebuilds makes a table from the facts after each event.
func (w *changing) rebuilds(ctx context.Context, event func(i int) policy.Event) (took samples, err error) {
	for i := range 9 {
		if err := w.Apply([]streams.Message{w.message(event(i))}); err != nil {
			return nil, err
		}
		fresh := snapshot.NewTables(w.Projector, snapshot.TableOptions{})
		before := cpuSeconds()
		want, ok, err := fresh.Of(ctx, nodeName(0))
		took = append(took, 1e3*(cpuSeconds()-before))
		if err != nil || !ok {
			return nil, fmt.Errorf("the table made from the facts: %t, %w", ok, err)
		}
		got, ok, err := w.tables.Of(ctx, nodeName(0))
		if err != nil || !ok || got.Fingerprint != want.Fingerprint {
			return nil, fmt.Errorf("the table that was kept is another than the one made from the facts: %t, %w", ok, err)
		}
	}
	return took, nil
}

// memory is what tables and their watch hold for each node, by the difference
// that letting go of them makes.
func (w *changing) memory() *line {
	runtime.GC()
	with, _ := heapNow()
	w.tables, w.watch = nil, nil
	runtime.GC()
	without, _ := heapNow()
	return figure("memory for tables and their watch", "bytes a node", samples{float64(with-without) / float64(w.nodes)})
}
