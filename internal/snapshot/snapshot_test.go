package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

const empty = `{"peers":[],"reachability":null,"policy":null,"bridge":null,"state":null,"reports":null,"executions":[],"sessions":null}`

// fakeView holds rows by hand.
type fakeView struct {
	rows     map[policy.NodeID]projector.Rows
	payloads map[compiler.Fingerprint]string
	reads    int
}

var errCorrupt = errors.New("corrupt")

func (v *fakeView) Generation(id policy.NodeID) (identity uint32, generation uint64, ok bool) {
	r, ok := v.rows[id]
	return r.Identity, r.Generation, ok
}

func (v *fakeView) Rows(id policy.NodeID) (projector.Rows, bool) {
	r, ok := v.rows[id]
	return r, ok
}

func (v *fakeView) Payload(fp compiler.Fingerprint) ([]byte, error) {
	v.reads++
	p, ok := v.payloads[fp]
	if !ok {
		return nil, errCorrupt
	}
	return []byte(p), nil
}

func (v *fakeView) row(p byte, payload string) projector.Row {
	fp := compiler.Fingerprint(sha256.Sum256([]byte(payload)))
	if v.payloads == nil {
		v.payloads = map[compiler.Fingerprint]string{}
	}
	v.payloads[fp] = payload
	return projector.Row{Policy: uuid.UUID{15: p}, Revision: uuid.UUID{14: p}, Fingerprint: fp, CompiledAt: time.Unix(int64(p), 0)}
}

func TestAStateMergesItsRows(t *testing.T) {
	v := &fakeView{}
	v.rows = map[policy.NodeID]projector.Rows{
		"none": {Identity: 1, Generation: 1},
		"one":  {Identity: 2, Generation: 1, Rows: []projector.Row{v.row(1, `[{"a":1}]`)}},
		"two":  {Identity: 3, Generation: 1, Rows: []projector.Row{v.row(1, `[{"a":1}]`), v.row(2, `[{"b":2},{"c":3}]`)}},
	}
	hash := func(s string) string {
		sum := sha256.Sum256([]byte(s))
		return base64.StdEncoding.EncodeToString(sum[:])
	}
	block := func(p byte, payloads, rules string) string {
		return fmt.Sprintf(`{"peers":[],"reachability":null,"policy":{"revision_id":%q,"fingerprint":%q,"rules":%s},`+
			`"bridge":null,"state":null,"reports":null,"executions":[],"sessions":null}`, uuid.UUID{14: p}, hash(payloads), rules)
	}
	c := NewComposer(Options{})
	for node, want := range map[policy.NodeID]string{
		"none": empty,
		"one":  block(1, `[{"a":1}]`, `[{"a":1}]`),
		"two":  block(1, `[{"a":1}][{"b":2},{"c":3}]`, `[{"a":1},{"b":2},{"c":3}]`),
	} {
		s, ok, err := c.State(v, node)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, want, string(s.Body))
		require.True(t, json.Valid(s.Body))
		require.Equal(t, fmt.Sprintf(`"%x"`, sha256.Sum256(s.Body)), s.ETag)
	}
	_, ok, err := c.State(v, "ghost")
	require.NoError(t, err)
	require.False(t, ok)
}

func TestACorruptRowIsNotServed(t *testing.T) {
	v := &fakeView{rows: map[policy.NodeID]projector.Rows{"n": {Rows: []projector.Row{{}}}}}
	_, _, err := NewComposer(Options{}).State(v, "n")
	require.ErrorIs(t, err, errCorrupt)
	_, _, err = Rulesets(v, "n")
	require.ErrorIs(t, err, errCorrupt)
}

func TestNodesOfOneIdentityCostOneMerge(t *testing.T) {
	v := &fakeView{rows: map[policy.NodeID]projector.Rows{}}
	for i := range 100 {
		v.rows[policy.NodeID(fmt.Sprint("n", i))] = projector.Rows{Identity: 7, Generation: 3, Rows: []projector.Row{v.row(1, `[]`)}}
	}
	c := NewComposer(Options{})
	for id := range v.rows {
		_, _, err := c.State(v, id)
		require.NoError(t, err)
	}
	require.Equal(t, 1, v.reads)
}

// Whatever is asked in whatever order, of old views and new ones, under a
// cache of any size, the answer is that of no cache, and the bound holds.
func TestTheCacheIsNeverSeen(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.IntRange(1, 3000).Draw(rt, "bytes")
		c := NewComposer(Options{CacheBytes: limit})
		v := &fakeView{rows: map[policy.NodeID]projector.Rows{}}
		for range rapid.IntRange(1, 60).Draw(rt, "asks") {
			identity := rapid.Uint32Range(0, 4).Draw(rt, "identity")
			generation := rapid.Uint64Range(0, 3).Draw(rt, "generation")
			v.rows["n"] = projector.Rows{
				Identity: identity, Generation: generation,
				Rows: []projector.Row{v.row(1, fmt.Sprintf(`[{"i":%d,"g":%d}]`, identity, generation))},
			}
			got, _, err := c.State(v, "n")
			require.NoError(rt, err)
			want, _, err := NewComposer(Options{}).State(v, "n")
			require.NoError(rt, err)
			require.Equal(rt, string(want.Body), string(got.Body))
			require.LessOrEqual(rt, c.cache.bytes, limit)
			sum := 0
			for e := c.cache.order.Front(); e != nil; e = e.Next() {
				sum += cost(e.Value.(*cacheEntry).state)
			}
			require.Equal(rt, sum, c.cache.bytes)
			require.Len(rt, c.cache.entries, c.cache.order.Len())
		}
	})
}

func TestRulesetsAreVerbatim(t *testing.T) {
	v := &fakeView{}
	v.rows = map[policy.NodeID]projector.Rows{"n": {Rows: []projector.Row{v.row(1, `[{"a":1}]`), v.row(2, `[]`)}}}
	sets, ok, err := Rulesets(v, "n")
	require.NoError(t, err)
	require.True(t, ok)
	require.Len(t, sets, 2)
	require.Equal(t, `[{"a":1}]`, string(sets[0].Payload))
	require.Equal(t, time.Unix(2, 0), sets[1].CompiledAt)
	_, ok, err = Rulesets(v, "ghost")
	require.NoError(t, err)
	require.False(t, ok)
}

// sliceLog is a log whose events keep coming after its state was read.
type sliceLog struct {
	msgs  []streams.Message
	later int // of msgs, those that come after
	cut   int // messages a batch
	fail  error
}

func (l *sliceLog) State(context.Context) (streams.State, error) {
	n := uint64(len(l.msgs) - l.later)
	return streams.State{First: 1, Last: n, Messages: n}, l.fail
}

func (l *sliceLog) Follow(ctx context.Context, from uint64) iter.Seq2[[]streams.Message, error] {
	return func(yield func([]streams.Message, error) bool) {
		for batch := range slices.Chunk(l.msgs[from-1:], l.cut) {
			if !yield(batch, nil) {
				return
			}
		}
		<-ctx.Done()
	}
}

func nodeEvents(n int) []streams.Message {
	labels := policy.Labels{{Key: "a", Value: "b"}}
	var msgs []streams.Message
	for i := range n {
		e := policy.NodeUpdated{
			ID: uuid.UUID{6: 0x70, 8: 0x80, 15: byte(i + 1)}, Project: uuid.UUID{6: 0x40, 8: 0x80},
			Node: policy.NodeID(fmt.Sprint("n", i)), Labels: labels,
		}
		msgs = append(msgs, streams.Message{
			Seq: uint64(i + 1), Subject: wire.Subject(e), Body: policy.Append(nil, e),
			Time: time.Unix(int64(i), 0).UTC(),
		})
	}
	return msgs
}

var options = projector.Options{Partitions: 4, Created: time.Unix(1, 0), First: 1}

func TestAReplayFoldsUpToTheHeadItFound(t *testing.T) {
	p, err := projector.Open(t.TempDir(), options)
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	msgs := nodeEvents(20)
	require.NoError(t, p.Apply(msgs[:13]))
	live, err := p.Digest(t.Context())
	require.NoError(t, err)
	for cut := 1; cut <= 20; cut += 4 {
		dir := filepath.Join(t.TempDir(), "new")
		var last uint64
		got, err := Replay(t.Context(), &sliceLog{msgs: msgs, later: 7, cut: cut}, dir, options, func(done, total uint64, rate float64) {
			require.Greater(t, done, last)
			require.LessOrEqual(t, done, total)
			require.Equal(t, uint64(13), total)
			require.Positive(t, rate)
			last = done
		})
		require.NoError(t, err)
		require.Equal(t, Result{Seq: 13, Rows: live.Rows, Digest: fmt.Sprintf("%x", live.Sum)}, got)
		require.Equal(t, uint64(13), last)
	}
}

func TestAReplayOfAnEmptyLogEnds(t *testing.T) {
	got, err := Replay(t.Context(), &sliceLog{cut: 1}, t.TempDir(), options, nil)
	require.NoError(t, err)
	require.Zero(t, got.Seq)
	require.Zero(t, got.Rows)
	require.Len(t, got.Digest, 64)
}

func TestAReplayOverwritesNothing(t *testing.T) {
	dir := t.TempDir()
	kept := filepath.Join(dir, "kept")
	require.NoError(t, os.WriteFile(kept, []byte("x"), 0o600))
	_, err := Replay(t.Context(), &sliceLog{msgs: nodeEvents(3), cut: 1}, dir, options, nil)
	require.ErrorIs(t, err, ErrNotEmpty)
	require.ErrorContains(t, err, dir)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	_, err = Replay(t.Context(), &sliceLog{msgs: nodeEvents(3), cut: 1}, kept, options, nil)
	require.Error(t, err, "a file is no directory")
}

func TestAReplayEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	log := &sliceLog{msgs: nodeEvents(5), cut: 2}
	log.later = -1 // a head that never comes
	_, err := Replay(ctx, log, t.TempDir(), options, func(done, _ uint64, _ float64) {
		if done == 5 {
			cancel()
		}
	})
	require.ErrorIs(t, err, context.Canceled)
}
