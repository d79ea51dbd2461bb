package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

const (
	reviseSets     = 50
	revisePolicies = 1_000
	reviseRules    = 20
	reviseTimes    = 201
	partitions     = 64
)

func removeAll(dir string) error { return os.RemoveAll(dir) }

// revise measures what one revision of a policy that every node has costs the
// fold. It must grow with the label sets, not with the nodes.
func revise(ctx context.Context, e *env) ([]line, error) {
	bounds := map[int]float64{100_000: 0.3, 1_000_000: 3}
	var lines []line
	for _, nodes := range []int{10_000, 100_000, 1_000_000} {
		if e.quick && nodes > 100_000 {
			continue
		}
		l, err := reviseAt(ctx, filepath.Join(e.dir, fmt.Sprint(nodes)), nodes)
		if err != nil {
			return lines, fmt.Errorf("%d nodes: %w", nodes, err)
		}
		if most, ok := bounds[nodes]; ok {
			l.atMost(most)
		}
		lines = append(lines, *l)
	}
	return lines, nil
}

// folding feeds a projector directly: no stream stands between.
type folding struct {
	*projector.Projector
	seq  uint64
	msgs []streams.Message
	at   time.Time
}

func (f *folding) message(e policy.Event) streams.Message {
	f.seq++
	return streams.Message{Seq: f.seq, Subject: wire.Subject(e), Body: policy.Append(nil, e), Time: f.at.Add(time.Duration(f.seq))}
}

// add folds in batches of a thousand.
func (f *folding) add(e policy.Event) error {
	f.msgs = append(f.msgs, f.message(e))
	if len(f.msgs) < 1000 {
		return nil
	}
	return f.flush()
}

func (f *folding) flush() error {
	err := f.Apply(f.msgs)
	f.msgs = f.msgs[:0]
	return err
}

func reviseAt(ctx context.Context, dir string, nodes int) (*line, error) {
	born := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	p, err := projector.Open(dir, projector.Options{Partitions: partitions, Created: born})
	if err != nil {
		return nil, err
	}
	f := &folding{Projector: p, at: born}
	l, err := reviseOn(ctx, f, nodes)
	return l, errors.Join(err, p.Close(), removeAll(dir))
}

func reviseOn(ctx context.Context, f *folding, nodes int) (*line, error) {
	a := newAuthor(3)
	if err := fill(ctx, f, a, nodes); err != nil {
		return nil, err
	}
	var took samples
	for i := range reviseTimes {
		m := []streams.Message{f.message(a.revise(revisePolicies, selecting("set"), reviseRules, 1+i))}
		began := time.Now()
		if err := f.Apply(m); err != nil {
			return nil, err
		}
		took = append(took, float64(time.Since(began).Nanoseconds())/1e6)
	}
	d, err := f.Digest(ctx)
	if err != nil {
		return nil, err
	}
	if want := nodes + nodes*(revisePolicies/reviseSets); d.Rows != want || d.Seq != f.seq {
		return nil, fmt.Errorf("the fold stands at %d with %d rows, not at %d with %d", d.Seq, d.Rows, f.seq, want)
	}
	say("  %s nodes: %s ms", grouped(int64(nodes)), short(took.median()))
	l := figure(grouped(int64(nodes))+" nodes", "ms", took).beside("the union of as many bit vectors alone", unions(nodes))
	return l.note("%s nodes: p99 %s ms, %d revisions of a policy that %d label sets match, %d policies, not fsynced",
		grouped(int64(nodes)), short(took.at(0.99)), reviseTimes, reviseSets, revisePolicies), nil
}

// fill gives the store its nodes and then its policies: the other way round
// every node would leave an edge for each of its policies.
func fill(ctx context.Context, f *folding, a *author, nodes int) error {
	for i := range nodes {
		if i%10_000 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if err := f.add(a.node(i, labelled("env", "prod", "set", fmt.Sprintf("s%d", i%reviseSets)))); err != nil {
			return err
		}
	}
	for i := range revisePolicies {
		if err := f.add(a.revise(i, selecting(fmt.Sprintf("set=s%d", i%reviseSets)), reviseRules, i)); err != nil {
			return err
		}
	}
	return f.flush()
}

// unions times the least that a revision must do, with nodes in bit vectors:
// join those of its label sets.
func unions(nodes int) (took samples) {
	words := (nodes + 63) / 64
	sets := make([][]uint64, reviseSets)
	for i := range sets {
		sets[i] = make([]uint64, words)
	}
	for i := range nodes {
		sets[i%reviseSets][i/64] |= 1 << (i % 64)
	}
	all := make([]uint64, words)
	for range reviseTimes {
		began := time.Now()
		clear(all)
		for _, set := range sets {
			for i, w := range set {
				all[i] |= w
			}
		}
		took = append(took, float64(time.Since(began).Nanoseconds())/1e6)
	}
	return took
}
