package relay

import (
	"context"
	"errors"
	"fmt"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// shard is what one goroutine of a round publishes.
type shard struct {
	*publishing
	seal  *sealing
	parts []*part
	of    map[int]*part
	lines []line

	ctx    context.Context
	stream bool // one is waited for
	sent   int
}

// linesHeld is how many messages are sealed together: some runs.
const linesHeld = 256

func (n *publishing) shard(ctx context.Context, i int) *shard {
	return &shard{
		publishing: n, seal: n.seals[i], of: map[int]*part{}, lines: make([]line, 0, linesHeld),
		ctx: ctx, stream: n.opt.Listeners.Streams(),
	}
}

func (s *shard) own(x *part) {
	s.parts = append(s.parts, x)
	s.of[x.id] = x
}

func (s *shard) edge(e *edgeThemes) error {
	if err := s.nodes(e.Lost, e.lost); err != nil {
		return err
	}
	return s.nodes(e.Have, e.have)
}

// nodes tells a theme to those of the nodes that are this shard's. What a
// partition was told before it came here is not said again.
func (s *shard) nodes(set projector.Nodes, t *theme) (err error) {
	if t == nil {
		return nil
	}
	if set.Len() <= len(s.parts) { // asking for each partition costs more than looking at each node
		set.Each(-1, func(_ projector.NodeRef, id policy.NodeID) bool {
			if x := s.of[id.Partition(s.partitions)]; x != nil && t.Seq > x.told {
				err = s.add(x, id, t)
			}
			return err == nil
		})
		return err
	}
	for _, x := range s.parts {
		if t.Seq <= x.told {
			continue
		}
		set.Each(x.id, func(_ projector.NodeRef, id policy.NodeID) bool {
			err = s.add(x, id, t)
			return err == nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// add tells a node, unless nobody listens or it was told of something later.
func (s *shard) add(x *part, id policy.NodeID, t *theme) error {
	if !s.everybody && !s.opt.Listeners.Any(id, wire.NodeSubject(id, t.name)) {
		s.skipped.Add(1)
		delete(x.prev, id) // the read model knows it
		return nil
	}
	last := x.prev[id]
	if last == nil {
		last = new(policy.EventID)
		*last = s.store.Latest(id, t.ID-1)
		x.prev[id] = last
	}
	if *last >= t.ID {
		return nil
	}
	s.lines = append(s.lines, line{t, id, *last})
	*last = t.ID
	if len(s.lines) == linesHeld {
		return s.flush()
	}
	return nil
}

// flush seals and publishes the lines gathered.
func (s *shard) flush() error {
	if len(s.lines) == 0 {
		return nil
	}
	defer func() { s.lines = s.lines[:0] }()
	s.told.Add(int64(len(s.lines)))
	return s.seal.seal(s.lines, func(l *line, header map[string][]string, body []byte) error {
		subject := wire.NodeSubject(l.node, l.name)
		if s.sent++; s.stream && s.sent%streamAhead == 0 {
			return s.pace(subject, header, body)
		}
		return s.opt.Wire.Tell(subject, header, body)
	})
}

// streamAhead is how many messages are published ahead of what a stream has
// stored: a server drops what its stream does not keep up with, and nobody is
// told. By default it holds 10,000 for a stream, and each core publishes.
const streamAhead = 1000

// pace publishes a message and waits until it is stored. A stream that says
// nothing, or is gone, is waited for once in a round.
func (s *shard) pace(subject string, header map[string][]string, body []byte) error {
	err := s.opt.Wire.TellStream(s.ctx, subject, header, body)
	if errors.Is(err, streams.ErrNoAnswer) && s.ctx.Err() == nil {
		s.r.opt.Log.Warn("a stream over the subjects of nodes does not keep up; it may lack messages", "error", err)
		s.stream, err = false, nil
	}
	return err
}

// missed tells one node what it missed after a sequence.
func (s *shard) missed(ctx context.Context, x *part, id policy.NodeID, after uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	from := policy.EndOf(s.store.Base(), after)
	past, err := s.store.Past(id, from, nil)
	if errors.Is(err, projector.ErrUnknownNode) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("what node %s missed: %w", id, err)
	}
	if !past.Whole { // what it lost cannot be known
		if err := s.add(x, id, s.envelopes.word(artifact.ReasonResync, s.store.Base(), after, past.Time)); err != nil {
			return err
		}
	}
	for _, i := range past.Items {
		t := s.theme(i.Item, i.Gone, streams.Trace{})
		if t == nil {
			continue
		}
		if err := s.add(x, id, t); err != nil {
			return err
		}
	}
	return nil
}
