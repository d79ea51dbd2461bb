package projector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/edictdev/edict/internal/streams"
)

// Audit reads a log's events from first to last, recomputes the chain hash and
// compares it at every link, oldest first. It returns the chain as far as it
// came; the error is a *streams.DamagedError for the first fault. passed is
// called after each batch with the sequence that was reached.
func Audit(ctx context.Context, log interface {
	Follow(ctx context.Context, from uint64) iter.Seq2[[]streams.Message, error]
}, first, last uint64, links []streams.Link, passed func(seq uint64),
) (Chain, error) {
	c := Chain{Seq: first - 1}
	if last < first {
		return c, nil
	}
	links = slices.Clone(links)
	slices.SortStableFunc(links, func(a, b streams.Link) int { return cmp.Compare(a.Seq, b.Seq) })
	for len(links) > 0 && links[0].Seq < first {
		links = links[1:]
	}
	agreed := first - 1
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for msgs, err := range log.Follow(ctx, first) {
		if err != nil {
			return c, fmt.Errorf("read the log: %w", err)
		}
		for _, m := range msgs {
			if err := ctx.Err(); err != nil {
				return c, err
			}
			c.Add(m)
			for len(links) > 0 && links[0].Seq == c.Seq {
				if err := c.Compare(links[0], agreed); err != nil {
					return c, err
				}
				agreed, links = c.Seq, links[1:]
			}
			if c.Seq == last {
				passed(c.Seq)
				return c, nil
			}
		}
		passed(c.Seq)
	}
	return c, cmp.Or(ctx.Err(), errors.New("the log ended before its head"))
}
