package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/edictdev/edict/policy"
)

const (
	relabelNodes  = 200
	relabelKeys   = 16 // labels of a node that policies ask for
	relabelValues = 4  // of each, with a policy for each
)

// relabelSent measures how many of the rows that a node is sent when it comes
// back it had: in a world in which nodes change their labels all the time, one of
// many at a time, so that most of their rows stay.
func relabelSent(ctx context.Context, e *env) (lines []line, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	s, err := serveEdict(ctx, e, "--durability", "relaxed")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	w := &relabelWorld{followers: followers{s: s, a: newAuthor(14), mark: relabelKeys * relabelValues}}
	if err := w.begin(ctx); err != nil {
		return nil, err
	}
	for _, away := range []int{1, 4, 16} {
		var rows, had samples
		for range e.rounds() {
			for range away {
				if err := w.change(ctx); err != nil {
					return nil, err
				}
			}
			h, err := w.meet(ctx)
			if err != nil {
				return nil, err
			}
			rows, had = append(rows, float64(h.rows)/relabelNodes), append(had, 100*float64(h.had)/float64(max(h.rows, 1)))
		}
		l := figure(fmt.Sprintf("rows that the client had, label sets missed: %d", away), "%", had)
		lines = append(lines, *l.note("%d nodes of %d rows; %s rows sent to each", relabelNodes, relabelKeys, short(rows.median())))
	}
	return lines, nil
}

// relabelWorld is nodes with many labels, and a policy for each value of each.
type relabelWorld struct {
	followers
	labels [relabelNodes][relabelKeys]int
	turn   int
}

func (w *relabelWorld) begin(ctx context.Context) error {
	var events []policy.Event
	for i := range relabelKeys * relabelValues {
		events = append(events, w.a.revise(i, selecting(fmt.Sprintf("k%02d=v%d", i/relabelValues, i%relabelValues)), 2, i))
	}
	for i := range w.labels {
		for k := range w.labels[i] {
			w.labels[i][k] = (i + k) % relabelValues
		}
		events = append(events, w.node(i))
		w.all = append(w.all, newFollower(w.s, nodeName(i), inRuns))
	}
	if err := w.s.publish(ctx, events); err != nil {
		return err
	}
	if _, err := w.marked(ctx); err != nil {
		return err
	}
	h, err := w.meet(ctx)
	if err == nil && h.rows != relabelNodes*(relabelKeys+1) {
		err = fmt.Errorf("%d nodes were sent %d rows at first, not %d each", relabelNodes, h.rows, relabelKeys+1)
	}
	return err
}

func (w *relabelWorld) node(i int) policy.Event {
	pairs := []string{"env", "prod"}
	for k, v := range w.labels[i] {
		pairs = append(pairs, fmt.Sprintf("k%02d", k), fmt.Sprintf("v%d", v))
	}
	return w.a.node(i, labelled(pairs...))
}

// change gives each node another value of one label.
func (w *relabelWorld) change(ctx context.Context) error {
	var events []policy.Event
	w.turn++
	for i := range w.labels {
		k := (w.turn*7 + i) % relabelKeys
		w.labels[i][k] = (w.labels[i][k] + 1) % relabelValues
		events = append(events, w.node(i))
	}
	return w.s.publish(ctx, events)
}
