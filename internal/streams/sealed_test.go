package streams

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// manyBlocks is a log of several blocks, whose messages have headers and bodies of all kinds, and how many those are.
func manyBlocks(t *testing.T, dir string) uint64 {
	t.Helper()
	var outs []Outgoing
	large := bytes.Repeat([]byte("x"), 700<<10)
	for i := range 80 {
		o := Outgoing{Subject: fmt.Sprintf("%s%s.%s.n-%d", wire.PrefixLog, project, policy.FamilyNode, i)}
		switch i % 4 {
		case 0:
			o.Header = []string{"one", "1", "Two", "", "one", " again: "}
		case 1:
			o.Header, o.Body = []string{headerTTL + "-not", "é"}, large
		case 2:
			o.Body = append(fmt.Appendf(nil, "%d", i), large...)
		case 3:
			o.Body = fmt.Appendf(nil, "%d\r\n", i)
		}
		outs = append(outs, o)
	}
	last := storeAll(t, dir, outs)
	blocks, err := blocksOf(messagesDir(dir))
	require.NoError(t, err)
	require.Greater(t, len(blocks), 3)
	return last
}

// reader is a connection to a server of a directory that reads the log from files, or never does.
func reader(t *testing.T, dir string, files bool) (*Conn, *Log) {
	t.Helper()
	c := connect(t, ConnectOptions{Server: startServer(t, ServerOptions{Dir: dir, Relaxed: true})})
	c.behind = math.MaxUint64
	if files {
		c.behind = 0
	}
	return c, openLog(t, c)
}

// readTo reads the log from a sequence on, up to another, or as far as that goes. consumers is how many
// the stream had when the first message came.
func readTo(t *testing.T, c *Conn, l *Log, from, last uint64) (got []Message, consumers int, err error) {
	t.Helper()
	for batch, err := range l.Follow(within(t), from) {
		if err != nil {
			return got, consumers, err
		}
		if got == nil {
			info, err := c.streamInfo(t.Context(), LogStream)
			require.NoError(t, err)
			consumers = info.State.Consumers
		}
		if got = append(got, batch...); got[len(got)-1].Seq >= last {
			break
		}
	}
	return got, consumers, nil
}

// TestSealedBlocksSayWhatTheServerSays: from wherever the log is read, its blocks say what a consumer does.
func TestSealedBlocksSayWhatTheServerSays(t *testing.T) {
	gen.Unraced()
	dir := t.TempDir()
	last := manyBlocks(t, dir)
	c, l := reader(t, dir, true)
	blocks, err := blocksOf(messagesDir(dir))
	require.NoError(t, err)
	newest := blocks[len(blocks)-1].first()
	for from := uint64(1); from <= last; from++ {
		c.behind = math.MaxUint64
		want, consumers, err := readTo(t, c, l, from, last)
		require.NoError(t, err)
		require.Equal(t, 1, consumers)
		c.behind = 0
		got, consumers, err := readTo(t, c, l, from, last)
		require.NoError(t, err)
		require.Equal(t, want, got, "from %d", from)
		require.Equal(t, from >= newest, consumers == 1, "from %d, where the newest block begins at %d", from, newest)
	}
}

// TestWhatABlockDoesNotSayIsAskedOfTheServer: a block that is damaged, cut, or away has the outcome that it has without
// this way of reading.
func TestWhatABlockDoesNotSayIsAskedOfTheServer(t *testing.T) {
	gen.Unraced()
	sound := t.TempDir()
	last := manyBlocks(t, sound)
	second := func(dir string) string { return filepath.Join(messagesDir(dir), "2.blk") }
	rewritten := func(change func(text []byte) []byte) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			text, err := os.ReadFile(second(dir))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(second(dir), change(text), 0o600))
		}
	}
	flipped := func(at int) func(*testing.T, string) {
		return rewritten(func(text []byte) []byte { text[at] ^= 4; return text })
	}
	for name, damage := range map[string]func(*testing.T, string){
		"a length":           flipped(1),
		"a sequence":         flipped(4),
		"a time":             flipped(13),
		"a subject's length": flipped(20),
		"a subject":          flipped(recordHead + 3),
		"a body":             flipped(600 << 10),
		"cut":                rewritten(func(text []byte) []byte { return text[:len(text)/2] }),
		"empty":              rewritten(func([]byte) []byte { return nil }),
		"another block":      rewritten(func(text []byte) []byte { return append(text, text...) }),
	} {
		t.Run(name, func(t *testing.T) {
			var got [2][]Message
			var errs [2]error
			for i, files := range []bool{true, false} {
				dir := t.TempDir()
				require.NoError(t, os.CopyFS(dir, os.DirFS(sound)))
				c, l := reader(t, dir, files)
				damage(t, dir)
				got[i], _, errs[i] = readTo(t, c, l, 1, last)
			}
			assert.Equal(t, sequences(got[1]), sequences(got[0]))
			assert.Equal(t, errs[1], errs[0])
		})
	}
}

// TestACompactionUnderAReaderOfBlocks: whoever reads while what they read is removed gets all of it, or hears where the log begins.
func TestACompactionUnderAReaderOfBlocks(t *testing.T) {
	sound := t.TempDir()
	last := manyBlocks(t, sound)
	for origin := uint64(2); origin <= last; origin += 11 {
		dir := t.TempDir()
		require.NoError(t, os.CopyFS(dir, os.DirFS(sound)))
		c, l := reader(t, dir, true)
		next := uint64(1)
		var failed error
		for batch, err := range l.Follow(within(t), 1) {
			if failed = err; err != nil {
				break
			}
			require.Equal(t, next, batch[0].Seq)
			if next == 1 {
				compact(t, c, l, originAt(t, l, origin, ""))
			}
			if next = batch[len(batch)-1].Seq + 1; next > last {
				break
			}
		}
		if next <= last {
			var gone *CompactedError
			require.ErrorAs(t, failed, &gone)
			require.Equal(t, next, gone.Seq)
		}
	}
}
