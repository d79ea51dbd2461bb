package streams

import (
	"context"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// originAt is an origin of the log, as if somebody had folded it.
func originAt(t testing.TB, l *Log, seq uint64, archive string) Origin {
	t.Helper()
	hash := func(b byte) string { return hex.EncodeToString(make([]byte, 31)) + fmt.Sprintf("%02x", b) }
	o, err := ParseOrigin(l.ID(), fmt.Appendf(nil, `{"version":%d,"signature":{"key_id":"k"},"payload":{"before":%q,"chain":%q,"archive":%q}}`, seq, hash(1), hash(2), archive))
	require.NoError(t, err)
	return o
}

// compact records an origin and removes what lies before it.
func compact(t testing.TB, c *Conn, l *Log, o Origin) {
	t.Helper()
	_, err := RecordOrigin(t.Context(), c, o)
	require.NoError(t, err)
	require.NoError(t, l.Purge(t.Context(), o))
}

func fillNodes(t testing.TB, l *Log, from, to int) {
	t.Helper()
	for n := from; n <= to; n++ {
		_, _, err := l.Publish(t.Context(), Append{Event: node(fmt.Sprint("n-", n), n)})
		require.NoError(t, err)
	}
}

// What lies before the origin is gone, and who asks for it hears where the log begins and
// which archive has it.
func TestALogThatWasCompactedBeginsAtItsOrigin(t *testing.T) {
	c := embedded(t)
	l, other := openLog(t, c), openLog(t, c)
	fillNodes(t, l, 1, 10)
	compact(t, c, l, originAt(t, l, 6, "2026-08.edict"))
	for what, l := range map[string]*Log{"who did it": l, "who had it open": other, "who opens it": openLog(t, c)} {
		s, err := l.State(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []uint64{6, 10, 5}, []uint64{s.First, s.Last, s.Messages}, what)
		assert.Equal(t, []uint64{6, 7, 8, 9, 10}, sequences(collect(t, l.Follow(within(t), 6), 5)), what)
		_, err = l.Get(t.Context(), 5)
		var gone *CompactedError
		require.ErrorAs(t, err, &gone, what)
		assert.Equal(t, CompactedError{Seq: 5, Origin: 6, Archive: "2026-08.edict"}, *gone)
		require.ErrorIs(t, err, ErrNotFound)
		require.ErrorContains(t, err, "2026-08.edict")
		_, err = l.Get(t.Context(), 11)
		require.NotErrorAs(t, err, &gone, "that is to come: %s", what)
		for _, err := range l.Follow(within(t), 3) {
			require.ErrorAs(t, err, &gone, "a follower is told, and does not wait: %s", what)
			assert.EqualValues(t, 3, gone.Seq)
		}
		require.NoError(t, l.VerifyExtent(t.Context(), nil), what)
		assert.EqualValues(t, 6, l.Begins())
		assert.EqualValues(t, 1, l.First())
	}
}

// Events that are missing without an origin, or above it, are damage as ever.
func TestAPurgeBeyondTheOriginIsDamage(t *testing.T) {
	for name, records := range map[string]uint64{"no origin": 0, "an older one": 3} {
		c := embedded(t)
		l := openLog(t, c)
		fillNodes(t, l, 1, 10)
		if records > 0 {
			compact(t, c, l, originAt(t, l, records, ""))
		}
		_, err := c.js.Stream(t.Context(), LogStream)
		require.NoError(t, err)
		s, err := c.js.Stream(t.Context(), LogStream)
		require.NoError(t, err)
		require.NoError(t, s.Purge(t.Context(), purgeTo(6)))
		var damaged *DamagedError
		require.ErrorAs(t, l.VerifyExtent(t.Context(), nil), &damaged, name)
		assert.Equal(t, DamageHole, damaged.Damage)
		_, err = OpenLog(t.Context(), c, LogOptions{})
		require.ErrorAs(t, err, &damaged, name)
		for _, err := range l.Follow(within(t), 4) {
			require.ErrorAs(t, err, &damaged, name)
		}
	}
}

// An origin of another log does not explain what this one lacks.
func TestAnOriginOfAnotherLogExplainsNothing(t *testing.T) {
	c := embedded(t)
	l := openLog(t, c)
	fillNodes(t, l, 1, 10)
	o := originAt(t, l, 6, "")
	o.Log = "1"
	_, err := RecordOrigin(t.Context(), c, o)
	require.NoError(t, err)
	require.ErrorContains(t, l.Purge(t.Context(), o), "is another one")
	s, err := c.js.Stream(t.Context(), LogStream)
	require.NoError(t, err)
	require.NoError(t, s.Purge(t.Context(), purgeTo(6)))
	_, err = OpenLog(t.Context(), c, LogOptions{})
	var damaged *DamagedError
	require.ErrorAs(t, err, &damaged)

	// Who looks whether its stream was restored opens it, and may declare it to be so.
	restored, err := OpenRestored(t.Context(), c)
	require.NoError(t, err)
	require.EqualValues(t, 6, restored.Begins())
	require.NoError(t, restored.KeepOrigin(t.Context()))
	require.NoError(t, restored.KeepOrigin(t.Context()))
	require.EqualValues(t, 6, openLog(t, c).Begins())
	_, err = OpenRestored(t.Context(), c)
	require.ErrorIs(t, err, ErrNotFound)
}

// Of two that record an origin at once one is first, and who was not removes nothing.
func TestTheFirstOriginCounts(t *testing.T) {
	c := embedded(t)
	l := openLog(t, c)
	fillNodes(t, l, 1, 10)
	first, second := originAt(t, l, 6, ""), originAt(t, l, 8, "")
	_, err := RecordOrigin(t.Context(), c, first)
	require.NoError(t, err)
	_, err = RecordOrigin(t.Context(), c, second)
	require.ErrorIs(t, err, ErrWrongSequence)
	require.ErrorIs(t, l.Purge(t.Context(), second), ErrWrongSequence)
	require.NoError(t, l.VerifyExtent(t.Context(), nil))
	m, err := l.Get(t.Context(), 1)
	require.NoError(t, err, "nothing is removed yet")
	assert.EqualValues(t, 1, m.Seq)
}

// A write that expects an event to be the last about its thing is the same write when
// that event was removed: before the writer knew it, and after.
func TestAWriteExpectsWhatWasRemoved(t *testing.T) {
	c := embedded(t)
	l, unaware := openLog(t, c), openLog(t, c)
	first, _, err := l.Publish(t.Context(), Append{Event: node("web", 1)})
	require.NoError(t, err)
	fillNodes(t, l, 1, 5)
	compact(t, c, l, originAt(t, l, 4, ""))
	for i, l := range []*Log{l, unaware} {
		seq, dup, err := l.Publish(t.Context(), Append{Event: node("web", 2+2*i), After: first})
		require.NoError(t, err)
		assert.False(t, dup)
		_, _, err = l.Publish(t.Context(), Append{Event: node("web", 3+2*i), After: first})
		require.ErrorIs(t, err, ErrWrongSequence, "another came between")
		again, dup, err := l.Publish(t.Context(), Append{Event: node("web", 2+2*i), After: first})
		require.NoError(t, err)
		assert.True(t, dup)
		assert.Equal(t, seq, again)
		if i == 0 {
			state, err := l.State(t.Context())
			require.NoError(t, err)
			first = seq
			fillNodes(t, l, 6, 9)
			next := originAt(t, l, state.Last+2, "")
			at, err := FindOrigin(t.Context(), c)
			require.NoError(t, err)
			next.Revision = at.Revision
			compact(t, c, l, next)
			require.Nil(t, unaware.origin.Load(), "it has not heard of any")
		}
	}
	here, err := l.Holds(t.Context(), node("n-1", 1))
	require.NoError(t, err)
	assert.False(t, here, "it was removed")
	for _, l := range []*Log{l, openLog(t, c)} {
		last, err := l.LastOf(t.Context(), node("n-1", 1))
		require.NoError(t, err)
		assert.Equal(t, l.Begins()-1, last, "one may have stood there, and none after")
	}
}

// A second compaction that was cut off behind its record has removed nothing: a log that is
// opened then takes the writes that it took before, and goes on once all is removed.
func TestAWriteExpectsWhatIsToBeRemoved(t *testing.T) {
	c := embedded(t)
	l := openLog(t, c)
	fillNodes(t, l, 1, 3)
	compact(t, c, l, originAt(t, l, 2, ""))
	web, _, err := l.Publish(t.Context(), Append{Event: node("web", 1)})
	require.NoError(t, err)
	db, _, err := l.Publish(t.Context(), Append{Event: node("db", 1)})
	require.NoError(t, err)
	fillNodes(t, l, 4, 6)
	next := originAt(t, l, 7, "")
	stands, err := FindOrigin(t.Context(), c)
	require.NoError(t, err)
	next.Revision = stands.Revision
	_, err = RecordOrigin(t.Context(), c, next)
	require.NoError(t, err)

	for _, l := range []*Log{openLog(t, c), l} {
		seq, dup, err := l.Publish(t.Context(), Append{Event: node("web", int(web)), After: web})
		require.NoError(t, err)
		assert.False(t, dup)
		_, _, err = l.Publish(t.Context(), Append{Event: node("web", 99), After: web})
		require.ErrorIs(t, err, ErrWrongSequence, "another came between")
		web = seq
	}
	opened := openLog(t, c)
	require.EqualValues(t, 7, opened.Begins())
	require.NoError(t, l.Purge(t.Context(), next))
	_, _, err = opened.Publish(t.Context(), Append{Event: node("db", 2), After: db})
	require.NoError(t, err)
}

// A log of an older release says how it can be compacted.
func TestALogThatNobodyMayPurgeSaysSo(t *testing.T) {
	c := embedded(t)
	cfg := c.logConfig(8, 1)
	cfg.DenyPurge = true
	_, err := c.js.CreateStream(t.Context(), cfg)
	require.NoError(t, err)
	require.ErrorIs(t, openLog(t, c).Purgeable(t.Context()), ErrDenyPurge)
}

// A start reads the files of a log that was compacted, and finds nothing wrong.
func TestFilesOfACompactedLogAreWhole(t *testing.T) {
	dir := t.TempDir()
	server := startServer(t, ServerOptions{Dir: dir, Relaxed: true})
	c, err := Connect(t.Context(), ConnectOptions{Server: server})
	require.NoError(t, err)
	l := openLog(t, c)
	fillNodes(t, l, 1, 50)
	compact(t, c, l, originAt(t, l, 31, ""))
	fillNodes(t, l, 51, 60)
	c.Close()
	server.Close()
	require.NoError(t, CheckBlocks(filepath.Clean(dir), 1<<30, 60))
	l = openLog(t, connect(t, ConnectOptions{Server: startServer(t, ServerOptions{Dir: dir, Relaxed: true})}))
	require.EqualValues(t, 31, l.Begins())
	require.NoError(t, l.VerifyExtent(context.Background(), nil))
	require.Len(t, collect(t, l.Follow(within(t), 31), 30), 30)
}

func purgeTo(seq uint64) jetstream.StreamPurgeOpt { return jetstream.WithPurgeSequence(seq) }
