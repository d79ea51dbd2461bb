package projector

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"log/slog"

	"github.com/cockroachdb/pebble/v2"

	"github.com/edictdev/edict/compiler"
	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/streams"
)

// Memory is a fold that keeps no store: what it has read is gone with it. It
// folds as a [Projector] does, by the same code, but forgets what only a store
// holds: payloads, revisions, addresses.
type Memory struct{ p *Projector }

// NewMemory makes one for a log. With edges it makes those that a [Feed] would be
// handed, and forgets them; without, it folds as a rebuild does.
func NewMemory(opt Options, edges bool) *Memory {
	opt.Past, opt.PastBytes = cmp.Or(opt.Past, defaultPast), cmp.Or(opt.PastBytes, defaultPastBytes)
	e := &ephemeral{mode: bulkFold}
	if edges {
		e.mode = toldFold
	}
	p := &Projector{opt: opt, room: newScratch(), log: opt.Log, ephemeral: e, changed: make(chan struct{})}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	p.opt.First = max(opt.First, 1)
	p.state = newState(opt.Partitions)
	p.cursor = cursor{created: opt.Created.UnixNano(), first: p.opt.First, base: opt.Base}
	return &Memory{p}
}

// Run folds log until ctx ends, see [Projector.Run].
func (m *Memory) Run(ctx context.Context, log Log) error { return m.p.Run(ctx, log) }

// Apply folds messages in one batch, see [Projector.Apply].
func (m *Memory) Apply(msgs []streams.Message) error { return m.p.Apply(msgs) }

// Wait returns nil once seq is folded, or ctx's error.
func (m *Memory) Wait(ctx context.Context, seq uint64) error { return m.p.Wait(ctx, seq) }

// Generation is [View.Generation].
func (m *Memory) Generation(id policy.NodeID) (identity uint32, generation uint64, ok bool) {
	m.p.Read(func(v *View) { identity, generation, ok = v.Generation(id) })
	return identity, generation, ok
}

// Rows is [View.Rows].
func (m *Memory) Rows(id policy.NodeID) (r Rows, ok bool) {
	m.p.Read(func(v *View) { r, ok = v.Rows(id) })
	return r, ok
}

// ephemeral takes the place of batch and store. All that the fold ever reads
// back is which events of nodes, admission policies and principals it
// has applied.
type ephemeral struct {
	applied  map[nodeEventKey]struct{}
	admitted map[string]struct{}             // keys of keyAdmissionEvent and keyAccessEvent
	payloads map[compiler.Fingerprint][]byte // where edges are made
	mode     mode
}

// nodeEventKey is a key of keyNodeEvent.
type nodeEventKey [1 + 4 + 16]byte

// Set implements sink.
func (e *ephemeral) Set(key, value []byte, _ *pebble.WriteOptions) error {
	if key[0] == keyAdmissionEvent || key[0] == keyAccessEvent {
		if e.admitted == nil {
			e.admitted = map[string]struct{}{}
		}
		e.admitted[string(key)] = struct{}{}
	}
	if key[0] == keyPayload && e.mode == toldFold {
		if e.payloads == nil {
			e.payloads = map[compiler.Fingerprint][]byte{}
		}
		e.payloads[compiler.Fingerprint(key[1:])] = bytes.Clone(value)
	}
	if key[0] != keyNodeEvent {
		return nil
	}
	if e.applied == nil {
		e.applied = map[nodeEventKey]struct{}{}
	}
	e.applied[nodeEventKey(key)] = struct{}{}
	return nil
}

// Delete implements sink: a node event is never forgotten.
func (e *ephemeral) Delete([]byte, *pebble.WriteOptions) error { return nil }

// Get implements past.
func (e *ephemeral) Get(key []byte) ([]byte, io.Closer, error) {
	if key[0] == keyPayload {
		if b := e.payloads[compiler.Fingerprint(key[1:])]; b != nil {
			return b, io.NopCloser(nil), nil
		}
		return nil, nil, pebble.ErrNotFound
	}
	var ok bool
	if key[0] == keyAdmissionEvent || key[0] == keyAccessEvent {
		_, ok = e.admitted[string(key)]
	} else {
		_, ok = e.applied[nodeEventKey(key)]
	}
	if ok {
		return nil, io.NopCloser(nil), nil
	}
	return nil, nil, pebble.ErrNotFound
}
