package main

import (
	"bytes"
	"context"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/archive"
	"github.com/edictdev/edict/internal/streams"
)

// archived is an archive of a stopped ledger's log up to an event, "": all of it.
func archived(t *testing.T, data string, until string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "archive")
	args := []string{"log", "export", "--to", dir, "--log", data}
	if until != "" {
		args = append(args, "--until", until)
	}
	code, _, errs := edict(t, args...)
	require.Zero(t, code, errs)
	return dir
}

// An archive may be larger than anybody waits for.
func TestLogCatEndsWhenItIsAskedTo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	read := 0
	var out bytes.Buffer
	a := archiveCommands{&app{console: console{stdout: &out, stderr: io.Discard, format: formatTable}}}
	err := a.cat(ctx, func(yield func(streams.Message, error) bool) {
		for read < 1000 {
			if read++; read == 3 {
				cancel()
			}
			if !yield(streams.Message{Seq: uint64(read)}, nil) {
				return
			}
		}
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 3, read)
	require.Equal(t, 3, strings.Count(out.String(), "\n"), "a title, and what was read before")
}

// TestWhatLogCatPrintsIsProved, though it lies far before the end of its segment.
func TestWhatLogCatPrintsIsProved(t *testing.T) {
	l := openLedger(t, t.TempDir())
	l.add(10)
	l.close()
	dir := archived(t, l.data, "")
	code, out, errs := edict(t, "log", "cat", dir, "--from", "2", "--until", "3")
	require.Zero(t, code, errs)
	require.Equal(t, 3, strings.Count(out, "\n"), "a title, and two events: %s", out)

	code, out, errs = edict(t, "log", "cat", dir, "--from", "11")
	require.Zero(t, code, errs)
	require.Empty(t, out)
	require.Contains(t, errs, "the archive has no event there")

	segment := filepath.Join(dir, "00000000000000000001.ndjson")
	packed, err := os.ReadFile(segment + ".zst")
	require.NoError(t, err)
	z, err := zstd.NewReader(nil)
	require.NoError(t, err)
	defer z.Close()
	text, err := z.DecodeAll(packed, nil)
	require.NoError(t, err)
	require.NoError(t, os.Remove(segment+".zst"))
	require.NoError(t, os.WriteFile(segment, bytes.ReplaceAll(text, []byte("n-2"), []byte("n-7")), 0o600))
	code, _, errs = edict(t, "log", "cat", dir, "--from", "2", "--until", "3")
	require.Equal(t, cli.Differs, code)
	require.Contains(t, errs, "the chain hash is")
}

// TestAnArchiveThatItsWitnessContradictsIsDamaged, as one that contradicts itself.
func TestAnArchiveThatItsWitnessContradictsIsDamaged(t *testing.T) {
	l := openLedger(t, t.TempDir())
	l.add(10)
	dir := filepath.Join(t.TempDir(), "archive")
	_, err := archive.Export(t.Context(), lying{l.log, 5}, archive.ExportOptions{Dir: dir})
	require.NoError(t, err)
	l.close()
	code, _, errs := edict(t, "log", "verify", "--archive", dir, "--log", l.data)
	require.Equal(t, cli.Differs, code, errs)
	require.Contains(t, errs, "use another copy of it")
}

// TestLogCatWritesOutWhatATerminalWouldObey: a producer chooses subjects and types.
func TestLogCatWritesOutWhatATerminalWouldObey(t *testing.T) {
	var out bytes.Buffer
	a := archiveCommands{&app{console: console{stdout: &out, format: formatTable}}}
	m := streams.Message{Seq: 1, Subject: "edict.log.a.node.\x1b[2Jx", Header: map[string][]string{"ce-type": {"\x1b]0;mine\a"}}}
	require.NoError(t, a.cat(t.Context(), func(yield func(streams.Message, error) bool) { yield(m, nil) }))
	require.NotContains(t, out.String(), "\x1b")
	require.Contains(t, out.String(), "[2Jx")
}

// TestLogCatNamesTheTypeOfTheBody, which is what the fold goes by: a producer need not say it in a header.
func TestLogCatNamesTheTypeOfTheBody(t *testing.T) {
	var out bytes.Buffer
	a := archiveCommands{&app{console: console{stdout: &out, format: formatTable}}}
	const body = `{"id":"0190a1b2-0000-7000-8000-000000000006","type":"node_removed","project_id":"00000000-0000-4000-8000-000000000000","node_id":"db-7"}`
	require.NoError(t, a.cat(t.Context(), func(yield func(streams.Message, error) bool) {
		_ = yield(streams.Message{Seq: 1, Body: []byte(body)}, nil) &&
			yield(streams.Message{Seq: 2, Body: []byte(body), Header: map[string][]string{"ce-type": {"policy_deleted"}}}, nil)
	}))
	require.Equal(t, 2, strings.Count(out.String(), "node_removed"), out.String())
	require.NotContains(t, out.String(), "policy_deleted")
}

// lying is a log that has other events than the one that it stands for, up to one.
type lying struct {
	*streams.Log
	before uint64
}

// Follow implements archive.Log.
func (l lying) Follow(ctx context.Context, from uint64) iter.Seq2[[]streams.Message, error] {
	return func(yield func([]streams.Message, error) bool) {
		for msgs, err := range l.Log.Follow(ctx, from) {
			for i := range msgs {
				if msgs[i].Seq < l.before {
					msgs[i].Body = bytes.ReplaceAll(msgs[i].Body, []byte("n-2"), []byte("n-7"))
				}
			}
			if !yield(msgs, err) {
				return
			}
		}
	}
}

// TestNothingIsRemovedThatItsArchiveHasOtherwise: no link of the witness is reached that
// would say so, and the archive's last event is the log's.
func TestNothingIsRemovedThatItsArchiveHasOtherwise(t *testing.T) {
	l := openLedger(t, t.TempDir())
	l.grow(10)
	dir := filepath.Join(t.TempDir(), "archive")
	_, err := archive.Export(t.Context(), lying{l.log, 5}, archive.ExportOptions{Dir: dir, Until: 6})
	require.NoError(t, err)
	l.close()
	a := archiveCommands{&app{console: console{stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}}}}
	before := func(dir string) (string, error) {
		return a.archiveBefore(t.Context(), compactFlags{logFlags: logFlags{log: l.data}, archive: dir}, nil, 9)
	}
	_, err = before(dir)
	require.ErrorContains(t, err, "is not what the log has")
	require.ErrorContains(t, err, "name another directory")

	name, err := before(archived(t, l.data, "6"))
	require.NoError(t, err)
	require.Equal(t, "archive", name)
}

// TestACompactionWhoseAnswerIsLostIsToBeRunAgain: it may have done all, or nothing.
func TestACompactionWhoseAnswerIsLostIsToBeRunAgain(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer s.Close()
	code, _, errs := edict(t, "log", "compact", "--keep", "3", "--server", s.URL)
	require.Equal(t, cli.Unavailable, code)
	require.Contains(t, errs, "run the same command again")
}
