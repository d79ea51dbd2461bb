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

// Beginning is the chain hash before the first event that a log has for certain, and the
// link that its origin is: none where it has its first event still.
func Beginning(log interface {
	First() uint64
	Origin() (o streams.Origin, ok bool)
},
) (Chain, []streams.Link) {
	if o, ok := log.Origin(); ok {
		return Chain{Seq: o.Seq - 1, Hash: o.Before}, []streams.Link{{Log: o.Log, Seq: o.Seq, Hash: o.Hash}}
	}
	return Chain{Seq: log.First() - 1}, nil
}

// Audit reads a log's events behind c up to last, recomputes the chain hash and
// compares it at every link, oldest first. It returns the chain as far as it
// came; the error is a *streams.DamagedError for the first fault. passed is
// called after each batch with the sequence that was reached.
func Audit(ctx context.Context, log interface {
	Follow(ctx context.Context, from uint64) iter.Seq2[[]streams.Message, error]
}, c Chain, last uint64, links []streams.Link, passed func(seq uint64),
) (Chain, error) {
	first := c.Seq + 1
	if last < first {
		return c, nil
	}
	against := NewComparison(links, c.Seq)
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
			if err := against.Reached(c); err != nil {
				return c, err
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

// Comparison holds the chain hash of a log against links of its witness, as it is read.
type Comparison struct {
	ahead  []streams.Link // oldest first
	since  uint64
	agreed int
}

// NewComparison begins with a log that is known to be whole up to a sequence, since.
func NewComparison(links []streams.Link, since uint64) *Comparison {
	links = slices.Clone(links)
	slices.SortStableFunc(links, bySeq)
	return &Comparison{ahead: links, since: since}
}

// Reached is called with the chain behind each event: *streams.DamagedError where a link
// says otherwise.
func (k *Comparison) Reached(c Chain) error {
	for ; len(k.ahead) > 0 && k.ahead[0].Seq <= c.Seq; k.ahead = k.ahead[1:] {
		if k.ahead[0].Seq < c.Seq { // of before the first event that was read
			continue
		}
		if err := c.Compare(k.ahead[0], k.since); err != nil {
			return err
		}
		k.since = c.Seq
		k.agreed++
	}
	return nil
}

// Agreed is how many links said the same.
func (k *Comparison) Agreed() int { return k.agreed }
