package streams

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// storeAll has a server write a log of such messages into a directory, and returns its last sequence.
func storeAll(t *testing.T, dir string, outs []Outgoing) uint64 {
	t.Helper()
	s, err := StartServer(ServerOptions{Dir: dir, Relaxed: true})
	require.NoError(t, err)
	defer s.Close()
	c, err := Connect(t.Context(), ConnectOptions{Server: s})
	require.NoError(t, err)
	defer c.Close()
	l := openLog(t, c)
	for _, o := range outs {
		_, err := c.store(t.Context(), newEncoder("").encode(&o, 0), requestTimeout)
		require.NoError(t, err)
	}
	state, err := l.State(t.Context())
	require.NoError(t, err)
	return state.Last
}

// stored is what a server has written of a log of two blocks and so many events.
func stored(t *testing.T) (dir string, events uint64) {
	large := bytes.Repeat([]byte("x"), 200<<10)
	var outs []Outgoing
	for i := range 42 {
		outs = append(outs, Outgoing{Subject: wire.PrefixLog + uuid.UUID{1}.String() + "." + policy.FamilyNode + ".n", Body: append(fmt.Appendf(nil, "%d", i), large...)})
	}
	for i := range 20 {
		e := policy.NodeUpdated{ID: uuid.New(), Project: uuid.UUID{1}, Node: policy.NodeID(fmt.Sprintf("n-%d", i))}
		outs = append(outs, Outgoing{Subject: wire.Subject(e), Body: policy.Append(nil, e), Header: []string{"a", "b"}})
	}
	dir = t.TempDir()
	return dir, storeAll(t, dir, outs)
}

// TestBlocksAreHeldAgainstTheirChecksums: as the server writes them they are
// whole; a byte that changed in a sealed block is always found, one in the newest
// but where it is a length, which looks like the end. What a crash cuts off there
// is no damage, and what nobody knows to have been stored is not either.
func TestBlocksAreHeldAgainstTheirChecksums(t *testing.T) {
	gen.Unraced()
	const all = 1 << 40
	dir, last := stored(t)
	require.NoError(t, CheckBlocks(dir, all, last))
	require.NoError(t, CheckBlocks(t.TempDir(), all, last), "there is none")
	var texts [2][]byte
	path := func(i int) string { return filepath.Join(messagesDir(dir), fmt.Sprintf("%d.blk", i+1)) }
	for i := range texts {
		var err error
		texts[i], err = os.ReadFile(path(i))
		require.NoError(t, err)
	}
	put := func(t require.TestingT, i int, text []byte) { require.NoError(t, os.WriteFile(path(i), text, 0o600)) }
	hole := func(t require.TestingT, err error) {
		var d *DamagedError
		require.ErrorAs(t, err, &d)
		require.Equal(t, DamageHole, d.Damage)
		require.LessOrEqual(t, d.From, last)
	}
	for at := 0; at < len(texts[0]); at += len(texts[0]) / 6 {
		text := bytes.Clone(texts[0])
		text[at] ^= 0x10
		put(t, 0, text)
		hole(t, CheckBlocks(dir, all, 0))
		require.NoError(t, CheckBlocks(dir, 1, last), "only the newest is read")
	}
	put(t, 0, texts[0])

	first := bytes.Index(texts[1], []byte(`{"id":`))
	record := bytes.LastIndex(texts[1][:first], []byte("edict.log.")) - recordHead
	covered := func(at int) bool { // by the checksum, of that record
		return at >= record+4 && at < record+20 || at >= record+recordHead && at < record+recordHead+10 || at >= first && at < first+100
	}
	rapid.Check(t, func(t *rapid.T) {
		text := bytes.Clone(texts[1])
		at := rapid.OneOf(rapid.IntRange(0, len(text)-1), rapid.IntRange(record, first+100)).Draw(t, "at")
		if rapid.Bool().Draw(t, "cut") {
			put(t, 1, text[:at])
			require.NoError(t, CheckBlocks(dir, 1, last), "as a crash leaves it")
			return
		}
		text[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		put(t, 1, text)
		require.NoError(t, CheckBlocks(dir, 1, 0), "nobody knows of any")
		if err := CheckBlocks(dir, 1, last); err != nil || covered(at) {
			hole(t, err)
		}
	})
}
