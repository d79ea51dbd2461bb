package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// message is one of no log, as odd as one may be.
func message(seq uint64) streams.Message {
	return streams.Message{
		Seq: seq, Subject: "edict.log.x\xff", Time: time.Unix(0, int64(seq)).UTC(), Body: []byte{byte(seq), 0xfe},
		Header: map[string][]string{"b": {"2", "1"}, "a": {"\xff"}},
	}
}

// inflated are the lines of a segment.
func inflated(t testing.TB, path string) []string {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	z, err := zstd.NewReader(f)
	require.NoError(t, err)
	defer z.Close()
	text, err := io.ReadAll(z)
	require.NoError(t, err)
	lines := strings.SplitAfter(string(text), "\n")
	return lines[:len(lines)-1]
}

// rewritten replaces a segment by lines, inflated, as somebody would who edits it.
func rewritten(t testing.TB, path string, lines []string) {
	t.Helper()
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.WriteFile(strings.TrimSuffix(path, ".zst"), []byte(strings.Join(lines, "")), 0o600))
}

// TestWhatWasDoneToAnArchiveIsNamed: by file and line.
func TestWhatWasDoneToAnArchiveIsNamed(t *testing.T) {
	p, stranger := world(t, 20, 40), world(t, 21, 40)
	whole, foreign := t.TempDir(), t.TempDir()
	p.export(whole)
	stranger.export(foreign)
	at := func(dir string, first uint64) string { return filepath.Join(dir, segmentName(first)) }
	edit := func(f func(lines []string) []string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			path := at(dir, 11)
			rewritten(t, path, f(inflated(t, path)))
		}
	}
	copied := func(t *testing.T, from, to string) {
		text, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(to, text, 0o600))
	}
	for name, c := range map[string]struct {
		do   func(t *testing.T, dir string)
		want string
	}{
		"nothing but inflated": {edit(func(l []string) []string { return l }), ""},
		"a body": {edit(func(l []string) []string {
			l[3] = strings.Replace(l[3], `node_id`, `node_iD`, 1)
			l[3] = strings.Replace(l[3], `policy_id`, `policy_iD`, 1)
			return l
		}), "11.ndjson, line 12: at 20 the chain hash is"},
		"a header":          {edit(func(l []string) []string { l[3] = strings.Replace(l[3], `"ana"`, `"bob"`, 1); return l }), "11.ndjson, line 12: the lines have SHA-256"},
		"a time":            {edit(func(l []string) []string { l[3] = strings.Replace(l[3], `"time":"2`, `"time":"3`, 1); return l }), "line 12: the lines have SHA-256"},
		"spaces":            {edit(func(l []string) []string { l[3] = strings.Replace(l[3], `,`, `, `, 1); return l }), "11.ndjson, line 4: it is not written as docs/archive.md says"},
		"a line gone":       {edit(func(l []string) []string { return append(l[:3], l[4:]...) }), "line 4: event 14 follows event 12"},
		"a line twice":      {edit(func(l []string) []string { l[4] = l[3]; return l }), "line 5: event 13 follows event 13"},
		"two lines swapped": {edit(func(l []string) []string { l[3], l[4] = l[4], l[3]; return l }), "line 4: event 14 follows event 12"},
		"no trailer":        {edit(func(l []string) []string { return l[:11] }), "line 12: the file ends before its trailer"},
		"no header":         {edit(func(l []string) []string { return l[1:] }), "line 1: no segment of a log begins so"},
		"more behind":       {edit(func(l []string) []string { return append(l, "\n", l[1]) }), "line 12: something follows the trailer"},
		"another trailer":   {edit(func(l []string) []string { l[11] = strings.Replace(l[11], `"events":10`, `"events":11`, 1); return l }), "there are 10 events, the trailer says 11"},
		"a newer format":    {edit(func(l []string) []string { l[0] = strings.Replace(l[0], `"version":1`, `"version":2`, 1); return l }), "the format has version 2, this edict reads 1"},
		"a segment gone":    {func(t *testing.T, dir string) { require.NoError(t, os.Remove(at(dir, 11))) }, "21.ndjson.zst, line 1: it begins at 21, and 00000000000000000001.ndjson.zst ends at 10: a segment is missing"},
		"a segment twice":   {func(t *testing.T, dir string) { copied(t, at(dir, 11), strings.TrimSuffix(at(dir, 11), ".zst")) }, "a segment is there twice"},
		"another name":      {func(t *testing.T, dir string) { require.NoError(t, os.Rename(at(dir, 11), at(dir, 12))) }, "it begins at 11, its name says 12"},
		"another log's":     {func(t *testing.T, dir string) { copied(t, at(foreign, 11), at(dir, 11)) }, "11.ndjson.zst, line 1: it is of log " + stranger.ID()},
		"another past": {func(t *testing.T, dir string) {
			lines := inflated(t, at(foreign, 11))
			lines[0] = strings.Replace(lines[0], stranger.ID(), p.ID(), 1)
			rewritten(t, at(dir, 11), lines)
		}, "11.ndjson, line 1: it begins with chain hash"},
		"ids that fell": {edit(func(l []string) []string {
			l[0] = strings.Replace(l[0], fmt.Sprintf(`"base":%d`, p.Base()), `"base":1`, 1)
			return l
		}), "line 1: event ids count from 1"},
		"partitions of no log": {edit(func(l []string) []string {
			l[0] = strings.Replace(l[0], `"partitions":8,`, `"partitions":4097,`, 1)
			return l
		}), "11.ndjson, line 1: no log has 4097 partitions"},
		"a base of no log": {edit(func(l []string) []string {
			l[0] = strings.Replace(l[0], fmt.Sprintf(`"base":%d`, p.Base()), `"base":2199023255553`, 1)
			return l
		}), "11.ndjson, line 1: event ids of no log count from 2199023255553"},
		"cut off": {func(t *testing.T, dir string) { require.NoError(t, os.Truncate(at(dir, 11), 200)) }, "the file ends before its trailer: it was cut off"},
		"a flipped byte": {func(t *testing.T, dir string) {
			text, err := os.ReadFile(at(dir, 11))
			require.NoError(t, err)
			text[len(text)/2] ^= 4
			require.NoError(t, os.WriteFile(at(dir, 11), text, 0o600))
		}, "00000000000000000011.ndjson.zst, line "},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for first := uint64(1); first < 40; first += 10 {
				copied(t, at(whole, first), at(dir, first))
			}
			c.do(t, dir)
			_, _, err := opened(t, dir).Verify(t.Context(), nil, nil)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			var fault *FaultError
			require.ErrorAs(t, err, &fault)
			require.ErrorContains(t, err, c.want)
			to := empty(t)
			_, err = opened(t, dir).Import(t.Context(), to.conn, ImportOptions{})
			require.ErrorAs(t, err, &fault)
			_, there, err := streams.LogCreated(t.Context(), to.conn)
			require.NoError(t, err)
			require.False(t, there, "nothing was written")
		})
	}
}

// TestALinkOfAnOlderReleaseAgrees in a segment behind the event from which on such a
// release had other hashes: it named an event by what it could decode of it.
func TestALinkOfAnOlderReleaseAgrees(t *testing.T) {
	p, dir := world(t, 22, 8), t.TempDir()
	const unknown = `{"id":"0190a000-0000-7000-8000-000000000001","type":"of_tomorrow"}`
	p.publish("edict.log.00000000-0000-4000-8000-000000000000.node.n-1", []byte(unknown))
	p.grow(23, 16)
	e := p.export(dir)
	require.Greater(t, e.Segments, 2)
	old := streams.Link{Seq: e.Last}
	for _, m := range p.messages() {
		id := ""
		if string(m.Body) != unknown {
			id = policy.IDOf(m.Body).String()
		}
		body := sha256.Sum256(m.Body)
		text := fmt.Appendf(binary.BigEndian.AppendUint64(old.Hash[:], m.Seq), "%s%s%s", m.Subject, id, body[:])
		old.Hash = sha256.Sum256(text)
	}
	_, agreed, err := opened(t, dir).Verify(t.Context(), []streams.Link{old}, nil)
	require.NoError(t, err)
	require.Equal(t, 1, agreed)
	require.NotEqual(t, e.Hash(), old.Hash)
}

// TestAnArchiveBeyondEveryLogIsRefused: who made up its sequences ends nobody's command.
func TestAnArchiveBeyondEveryLogIsRefused(t *testing.T) {
	for _, first := range []uint64{math.MaxUint64, streams.MaxBase + 1} {
		dir := t.TempDir()
		w := writer{at: directory(dir), header: Header{Log: "1", Partitions: 1, Begins: first}, events: 1, bytes: segmentBytes}
		w.chain.Seq = first - 1
		require.NoError(t, w.add(streams.Message{Seq: first, Subject: "edict.log.x", Time: time.Unix(1, 0).UTC(), Body: []byte("{}")}))
		_, _, err := opened(t, dir).Verify(t.Context(), nil, nil)
		require.ErrorAs(t, err, new(*FaultError))
		require.ErrorContains(t, err, fmt.Sprintf("line 1: no log has an event %d", first))
	}
}

// FuzzReader: whatever a file says, it is read within bounds, and what is accepted
// says one thing in one way.
func FuzzReader(f *testing.F) {
	var plain, packed bytes.Buffer
	w := writer{at: directory(f.TempDir()), header: Header{Log: "1", Partitions: 1, Begins: 1}, events: 3, bytes: segmentBytes}
	for i := range uint64(3) {
		require.NoError(f, w.add(message(i+1)))
	}
	path := filepath.Join(string(w.at.(directory)), segmentName(1))
	text, err := os.ReadFile(path)
	require.NoError(f, err)
	packed.Write(text)
	plain.WriteString(strings.Join(inflated(f, path), ""))
	f.Add(packed.Bytes())
	f.Add(plain.Bytes())
	f.Add([]byte(`{"edict":"log segment","version":1}` + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := newReader("fuzzed", bytes.NewReader(text))
		if err != nil {
			return
		}
		defer r.close()
		again := appendLine(nil, r.header)
		for {
			m, ok, err := r.event()
			if err != nil {
				return
			}
			if !ok {
				break
			}
			again = appendEvent(again, &m)
		}
		again = appendLine(again, *r.trailer)
		if !bytes.Equal(text[:min(4, len(text))], []byte{0x28, 0xb5, 0x2f, 0xfd}) {
			require.Equal(t, string(text), string(again), fmt.Sprintf("%d events", r.trailer.Events))
		}
	})
}
