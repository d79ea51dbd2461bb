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

// shard publishes the part of a round that one goroutine has.
type shard struct {
	*publishing
	seal     *sealer
	parts    []*part
	of       map[int]*part
	outgoing []outgoing

	ctx   context.Context
	paced bool // streams that take messages in are waited for
	sent  int  // since one was
}

// maxOutgoing is how many messages are sealed together, which makes a few runs.
const maxOutgoing = 256

func (n *publishing) shard(ctx context.Context, i int) *shard {
	return &shard{
		publishing: n, seal: n.seals[i], of: map[int]*part{}, outgoing: make([]outgoing, 0, maxOutgoing),
		ctx: ctx, paced: true,
	}
}

func (s *shard) own(x *part) {
	s.parts = append(s.parts, x)
	s.of[x.id] = x
}

func (s *shard) edge(e *edgeContents) error {
	if err := s.nodes(e, e.Lost, true); err != nil {
		return err
	}
	return s.nodes(e, e.Have, false)
}

// nodes adds a message for each of the nodes of an edge that are in this shard, those
// that have the item or, gone, have lost it. It leaves out partitions for which the
// event was published already.
func (s *shard) nodes(e *edgeContents, set projector.Nodes, gone bool) (err error) {
	add := func(x *part, id policy.NodeID) bool {
		if t := e.content(s.publishing, gone); t != nil {
			err = s.add(x, id, t)
		}
		return err == nil
	}
	if set.Len() <= len(s.parts) { // a search in each partition costs more than a look at each node
		set.Each(-1, func(_ projector.NodeRef, id policy.NodeID) bool {
			if x := s.of[id.Partition(s.partitions)]; x != nil && e.Seq > x.published {
				return add(x, id)
			}
			return true
		})
		return err
	}
	for _, x := range s.parts {
		if e.Seq <= x.published {
			continue
		}
		set.Each(x.id, func(_ projector.NodeRef, id policy.NodeID) bool { return add(x, id) })
		if err != nil {
			return err
		}
	}
	return nil
}

// add adds a message for a node, unless nobody is subscribed for it, or a later
// message was published for it.
func (s *shard) add(x *part, id policy.NodeID, t *content) error {
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
	s.outgoing = append(s.outgoing, outgoing{t, id, *last})
	*last = t.ID
	if len(s.outgoing) == maxOutgoing {
		return s.flush()
	}
	return nil
}

// flush seals and publishes the messages that were added.
func (s *shard) flush() error {
	if len(s.outgoing) == 0 {
		return nil
	}
	defer func() { s.outgoing = s.outgoing[:0] }()
	s.messages.Add(int64(len(s.outgoing)))
	return s.seal.seal(s.envelopes.keys.Current(), s.outgoing, func(l *outgoing, header map[string][]string, body []byte) error {
		subject := wire.NodeSubject(l.node, l.name)
		if s.sent++; s.paced && s.sent >= s.ahead && s.opt.Listeners.Stored(subject) {
			s.sent = 0
			return s.pace(subject, header, body)
		}
		return s.opt.Wire.Tell(subject, header, body)
	})
}

// streamAhead is how many messages a core may publish before a stream has stored them.
// A server silently drops what its stream does not keep up with; by default it
// buffers 10,000 messages for a stream, and every core publishes.
const streamAhead = 1000

// pace publishes a message and waits until a stream has stored it. After a stream
// that did not answer, nothing is waited for in this round.
func (s *shard) pace(subject string, header map[string][]string, body []byte) error {
	err := s.opt.Wire.TellStream(s.ctx, subject, header, body)
	if errors.Is(err, streams.ErrBusy) {
		return nil // no stream has this subject, nor anybody; Flush says if the connection was lost
	}
	if errors.Is(err, streams.ErrNoAnswer) && s.ctx.Err() == nil {
		s.r.opt.Log.Warn("a stream over the subjects of nodes does not keep up; it may lack messages", "error", err)
		s.paced, err = false, nil
	}
	return err
}

// catchUp adds the messages that a node lacks: those that are not published, and, if its
// subscription is new, those that were passed over.
func (s *shard) catchUp(ctx context.Context, x *part, id policy.NodeID) error {
	after := x.published
	if s.fresh.has(id) {
		delete(x.prev, id) // what came after that may have been published
		after = min(after, s.before())
	}
	return s.missed(ctx, x, id, after)
}

// missed adds the messages that a node missed after a sequence.
func (s *shard) missed(ctx context.Context, x *part, id policy.NodeID, after uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	from := policy.EndOf(s.store.Base(), after)
	past, err := s.store.Past(id, from, nil)
	switch {
	case errors.Is(err, projector.ErrUnknownNode):
		return nil
	case errors.Is(err, projector.ErrBehind):
		return nil // whoever had the partition before published more than is folded here
	}
	if err != nil {
		return fmt.Errorf("what node %s missed: %w", id, err)
	}
	if !past.Whole { // what the node lost is not known
		delete(x.prev, id) // a round that failed may have come further
		if err := s.add(x, id, s.envelopes.pullContent(artifact.ReasonResync, s.store.Base(), after, past.Time)); err != nil {
			return err
		}
	}
	for _, i := range past.Items {
		t := s.content(i.Item, i.Gone, streams.Trace{})
		if t == nil {
			continue
		}
		if err := s.add(x, id, t); err != nil {
			return err
		}
	}
	return nil
}
