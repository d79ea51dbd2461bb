package relay

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/policy"
)

// Replier answers requests on core NATS; *streams.Conn is one.
type Replier interface {
	Serve(ctx context.Context, subject string, f func(subject string, body []byte, reply func(header map[string][]string, body []byte) error)) error
}

// Headers and subject of the replay service (contracts).
const (
	replayPrefix   = "edict.replay.node."
	headerSequence = "Nats-Sequence"
	headerUpTo     = "Edict-Up-To"
	headerResync   = "Edict-Resync"
	headerError    = "Edict-Error" // why there is no answer; ask again
	headerEvent    = "Edict-Event" // signing_key_rotated: the body is a notice, as over SSE, and no message of the stream
)

// replayRequest asks for what a native client missed.
type replayRequest struct {
	After uint64 `json:"after"`
}

// serveReplay answers native clients: the messages after n as they are stored,
// each with its sequence, then an empty one that says up to where the answer
// is complete and whether the node must pull as well.
func (r *Relay) serveReplay(ctx context.Context) error {
	return r.opt.Replier.Serve(ctx, replayPrefix+"*", func(subject string, body []byte, reply func(map[string][]string, []byte) error) {
		if err := r.replay(ctx, subject, body, reply); err != nil && ctx.Err() == nil {
			r.opt.Log.Debug("a replay was not answered", "subject", subject, "error", err)
			_ = reply(map[string][]string{headerError: {err.Error()}}, nil) // the client asks again anyway
		}
	})
}

func (r *Relay) replay(ctx context.Context, subject string, body []byte, reply func(map[string][]string, []byte) error) error {
	node, err := policy.ParseNodeID(subject[len(replayPrefix):])
	if err != nil {
		return err
	}
	var q replayRequest
	if err := json.Unmarshal(body, &q); err != nil {
		return fmt.Errorf(`a replay request is {"after":n}: %w`, err)
	}
	h := r.hub.Load()
	if h == nil {
		return &NotReadyError{"the node stream is not open yet"}
	}
	at, err := h.position()
	if err != nil {
		return err
	}
	p, err := h.past(ctx, node, q.After, at)
	if err != nil {
		return err
	}
	keys, _ := r.keys.Now()
	if notice, ok := keys.AppendRotation(policy.DialectCurrent, nil, string(node), time.Now()); ok {
		if err := reply(map[string][]string{headerEvent: {artifact.TypeKeyRotated}}, notice); err != nil {
			return err
		}
	}
	for m, err := range p.events {
		if err != nil {
			return err
		}
		// Another worker may have heard of a new key first, and what a replaced
		// one signed is about to be signed anew.
		if id := signedBy(m.Body); !keys.Knows(id) {
			return fmt.Errorf("message %d is signed by key %s, which this worker does not announce now", m.Seq, id)
		}
		header := maps.Clone(m.Header)
		if header == nil {
			header = map[string][]string{}
		}
		header[headerSequence] = []string{strconv.FormatUint(m.Seq, 10)}
		if err := reply(header, m.Body); err != nil {
			return err
		}
	}
	end := map[string][]string{headerUpTo: {strconv.FormatUint(p.upTo, 10)}}
	if p.pull {
		end[headerResync] = []string{"true"}
	}
	r.opt.Metrics.Resumed(p.source)
	return reply(end, nil)
}
