package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/snapshot"
)

// pastApart is how far a question about the past is from the mark before it on average, at
// a million events and as many marks as a worker keeps.
const pastApart = foldEvents / 32 / 2

// pastState measures how long it takes to say what a node had at half of a log: with a
// mark as near as one is on average, without any, and again.
func pastState(ctx context.Context, e *env) (lines []line, err error) {
	ctx, cancel := context.WithTimeout(ctx, 8*time.Minute)
	defer cancel()
	r, err := openRig(ctx, e.dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	events := e.scale(foldEvents)
	if err := writeLog(ctx, r, newHistory(e.scale(foldNodes)), events); err != nil {
		return nil, err
	}
	half, apart := uint64(events/2), uint64(e.scale(pastApart))
	var near, whole, again, marks samples
	for round := range e.rounds() {
		dir := filepath.Join(r.dir, "past")
		h, err := r.past(dir, half-apart)
		if err != nil {
			return nil, err
		}
		// The first question leaves a mark where it stands, and the second begins there.
		for _, took := range []*samples{&whole, &near, &again} {
			seq := half
			if took == &whole {
				seq = half - apart
			}
			began := time.Now()
			if err := pastAsk(ctx, h, seq); err != nil {
				h.Close()
				return nil, err
			}
			*took = append(*took, time.Since(began).Seconds())
		}
		h.Close()
		n, err := diskMiB(dir)
		if err != nil {
			return nil, err
		}
		marks = append(marks, n)
		if err := removeAll(dir); err != nil {
			return nil, err
		}
		say("  round %d: %s s from a mark, %s s without, %s s again", round+1, short(near[round]), short(whole[round]), short(again[round]))
	}
	l := figure("a node's state at half of the log, from a mark", "s", near).atMost(1)
	l.note("%s events of %s nodes; the mark stands %s events before", grouped(int64(events)), grouped(int64(e.scale(foldNodes))), grouped(int64(apart)))
	return []line{*l, *figure("from the first event, without a mark", "s", whole), *figure("asked again", "s", again), *figure("its mark on disk", "MiB", marks)}, nil
}

// past answers about the past of the rig's log, and makes marks so many events apart.
func (r *rig) past(dir string, every uint64) (*snapshot.History, error) {
	from := snapshot.Beginnings{
		Conn: r.conn, Log: r.log, Store: func() projector.Options { return r.options() }, Trust: func(string) bool { return false },
	}
	return snapshot.NewHistory(snapshot.HistoryOptions{Dir: dir, Nearest: from.Nearest, Open: from.Open, Every: every})
}

func pastAsk(ctx context.Context, h *snapshot.History, seq uint64) error {
	m, done, err := h.At(ctx, seq)
	if err != nil {
		return err
	}
	defer done()
	m.Store.Read(func(v *projector.View) { _, _, err = m.Composer.State(v, nodeName(0)) })
	if err == nil {
		_, _, err = m.Blocks.Of(ctx, nodeName(0))
	}
	if err == nil && m.Store.Applied() != seq {
		err = fmt.Errorf("the past stands at %d, not at %d", m.Store.Applied(), seq)
	}
	return err
}
