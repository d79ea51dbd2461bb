package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/fault"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// replayRequest is the request of a NATS reader for what it missed.
type replayRequest struct {
	After  policy.EventID `json:"after"`
	Tables bool           `json:"tables"` // the reader enforces tables
}

// serveReplay answers replay requests. An answer is the messages after an id, as
// they would have been published, and then an empty message, which says up to where
// the answer is complete and whether the node must pull as well. serving is called when
// requests are received.
func (r *Relay) serveReplay(ctx context.Context, serving func()) error {
	return r.opt.Publish.Wire.Serve(ctx, wire.PrefixReplay+"*", serving, func(subject string, body []byte, reply func(map[string][]string, []byte) error) {
		err := r.replay(ctx, subject, body, reply)
		if err == nil || ctx.Err() != nil {
			return
		}
		r.opt.Log.Debug("a replay was not answered", "subject", subject, "error", err)
		_ = reply(map[string][]string{wire.HeaderError: {replayError(err)}}, nil) // the reader asks again anyway
	})
}

// replayError is the text of an error in an answer.
func replayError(err error) string {
	var behind *NotReadyError
	switch {
	case errors.As(err, &behind):
		return wire.ReplayBehind
	case errors.Is(err, projector.ErrUnknownNode):
		return wire.ReplayUnknown
	}
	return err.Error()
}

func (r *Relay) replay(ctx context.Context, subject string, body []byte, reply func(map[string][]string, []byte) error) error {
	node, err := policy.ParseNodeID(subject[len(wire.PrefixReplay):])
	if err != nil {
		return err
	}
	var q replayRequest
	if err := json.Unmarshal(body, &q); err != nil {
		return fmt.Errorf(`a replay request is {"after":"<event id>"}: %w`, err)
	}
	a, err := r.answer(ctx, node, q.After, q.Tables, nil)
	if err != nil {
		return err
	}
	keys, _ := r.keys.Now() // one that comes meanwhile is not announced in this answer
	if err := replyKey(keys, node, reply); err != nil {
		return err
	}
	if err := r.replyItems(keys.Current, node, q.After, a, reply); err != nil {
		return err
	}
	// Who missed nothing learns here which log live messages must be of.
	end := map[string][]string{
		wire.HeaderUpTo: {a.upTo.String()}, wire.HeaderLog: {r.envelopes.log}, wire.HeaderLogSeq: {strconv.FormatUint(a.seq, 10)},
	}
	if a.pull && !fault.Always(fault.Silence) {
		end[wire.HeaderResync] = []string{"true"}
	}
	r.opt.Metrics.Resumed(SourcePast)
	return reply(end, nil)
}

// replyKey announces a new key before anything that it signed, during the
// transition.
func replyKey(keys artifact.Keys, node policy.NodeID, reply func(map[string][]string, []byte) error) error {
	notice, ok := keys.AppendRotation(policy.DialectCurrent, nil, string(node), time.Now())
	if !ok {
		return nil
	}
	return reply(map[string][]string{wire.HeaderEvent: {artifact.TypeKeyRotated}}, notice)
}

func (r *Relay) replyItems(by *artifact.Signer, node policy.NodeID, after policy.EventID, a answer, reply func(map[string][]string, []byte) error) error {
	lines := make([]outgoing, 0, len(a.items)+1)
	prev := after
	if a.pull {
		prev = a.pullID
	}
	add := func(t *content) {
		lines = append(lines, outgoing{t, node, prev})
		prev = t.ID
	}
	for _, i := range a.items {
		t, err := r.envelopes.itemContent(i.Item, i.Gone, streams.Trace{})
		if err != nil {
			return err
		}
		add(t)
	}
	if a.table {
		add(r.envelopes.pullContent(artifact.ReasonDatapath, r.store.Base(), a.seq, a.time))
	}
	return r.envelopes.sealer().seal(by, lines, func(_ *outgoing, header map[string][]string, body []byte) error { return reply(header, body) })
}
