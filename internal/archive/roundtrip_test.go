package archive

import (
	"context"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/streams"
)

// odd appends what no worker would: it is in the log, so it must be in the archive.
func (p *plane) odd() {
	p.publish("edict.log.\xff.node.n-1", []byte("\x00\xff not text"))
	p.publish("edict.log.00000000-0000-4000-8000-000000000000.node.n-1", nil, "x", "\xfe", "x", "second", "b", "a value: with <html>")
	p.publish("edict.log.00000000-0000-4000-8000-000000000000.node.n-2", []byte(strings.Repeat("\x01", 100)), "Status", "404", "Nats-Msg-Id", "mine")
	p.publish("edict.log.00000000-0000-4000-8000-000000000000.node.n-2", []byte("line\u2028 separator </script> \\ \""))
}

var worlds = flag.Uint64("archive.worlds", 1, "logs that TestAnImportedLogIsTheOneThatWasExported exports and imports")

func TestAnImportedLogIsTheOneThatWasExported(t *testing.T) {
	for seed := range *worlds {
		from := world(t, seed, 60)
		from.odd()
		dir := t.TempDir()
		before := from.export(dir)
		require.EqualValues(t, 64, before.Last)
		require.Equal(t, 7, before.Segments)

		to := empty(t)
		var err error
		to.Log, err = opened(t, dir).Import(t.Context(), to.conn, ImportOptions{})
		require.NoError(t, err)
		require.Equal(t, from.messages(), to.messages(), "sequences, times, headers and bytes")
		require.Equal(t, from.Base(), to.Base(), "event ids go on")
		require.NotEqual(t, from.ID(), to.ID())
		require.Equal(t, from.folded(), to.folded())

		again, err := streams.OpenLog(t.Context(), to.conn, streams.LogOptions{})
		require.NoError(t, err, "it is open")
		require.Equal(t, 8, again.Partitions())
		chain, err := streams.FindChain(t.Context(), to.conn)
		require.NoError(t, err)
		links, _, err := chain.Links(t.Context())
		require.NoError(t, err)
		require.Len(t, links, 1)
		require.Equal(t, before.Chain, hex.EncodeToString(links[0].Hash[:]), "the witness begins with the archive's chain hash")
		require.NoError(t, again.VerifyExtent(t.Context(), links))

		to.grow(seed+10, 3)
		require.EqualValues(t, 67, to.messages()[66].Seq)
		require.Equal(t, before.Chain, to.exported(64))
	}
}

// exported is the chain hash of the log's first events, as an archive of them has it.
func (p *plane) exported(until uint64) string {
	e, err := Export(p.t.Context(), p.Log, ExportOptions{Dir: p.t.TempDir(), Until: until})
	require.NoError(p.t, err)
	return e.Chain
}

func TestEventIDsOfABackupBeginAnew(t *testing.T) {
	from := world(t, 1, 12)
	dir := t.TempDir()
	from.export(dir)
	to := empty(t)
	var err error
	to.Log, err = opened(t, dir).Import(t.Context(), to.conn, ImportOptions{Restored: true})
	require.NoError(t, err)
	require.Greater(t, to.Base(), from.Base()+1<<24, "above what the plane can have sent since")
	require.Equal(t, from.folded().Digest, to.folded().Digest)
	chain, err := streams.FindChain(t.Context(), to.conn)
	require.NoError(t, err)
	links, _, err := chain.Links(t.Context())
	require.NoError(t, err)
	require.True(t, links[0].Restored)
	require.Equal(t, to.Base(), links[0].Base)
}

func TestAnExportGoesOnWhereTheLastOneEnded(t *testing.T) {
	p := world(t, 3, 25)
	dir := t.TempDir()
	require.EqualValues(t, 3, p.export(dir).Segments)
	p.grow(4, 7)
	left := filepath.Join(dir, segmentName(26)+unfinished)
	require.NoError(t, os.WriteFile(left, []byte("of a crash"), 0o600))
	grown := p.export(dir)
	require.NoFileExists(t, left)
	require.Equal(t, [2]uint64{1, 32}, [2]uint64{grown.First, grown.Last})
	require.Equal(t, 4, grown.Segments)
	require.Equal(t, grown, p.export(dir), "nothing is new")

	whole, err := opened(t, dir).Extent(t.Context())
	require.NoError(t, err)
	require.Equal(t, grown, whole)
	require.Equal(t, p.exported(32), whole.Chain)

	other := world(t, 3, 40)
	_, err = Export(t.Context(), other.Log, ExportOptions{Dir: dir})
	require.ErrorContains(t, err, "is of log")
}

func TestAnArchiveOfTheEndHasTheSameChain(t *testing.T) {
	p := world(t, 5, 30)
	dir := t.TempDir()
	e, err := Export(t.Context(), p.Log, ExportOptions{Dir: dir, From: 12, Until: 29})
	require.NoError(t, err)
	require.Equal(t, [2]uint64{12, 29}, [2]uint64{e.First, e.Last})
	require.Equal(t, p.exported(29), e.Chain)
	to := empty(t)
	_, err = opened(t, dir).Import(t.Context(), to.conn, ImportOptions{})
	require.ErrorContains(t, err, "begins at 12, its log at 1")
	_, err = Export(t.Context(), p.Log, ExportOptions{Dir: dir, From: 31})
	require.ErrorContains(t, err, "leaves a gap")
}

func TestAFoldOfTheArchiveIsAFoldOfTheLog(t *testing.T) {
	p := world(t, 6, 40)
	dir := t.TempDir()
	p.export(dir)
	a := opened(t, dir)
	opt, err := a.StoreOptions(t.Context())
	require.NoError(t, err)
	require.Equal(t, p.folded(), folded(t, a, opt))
}

func TestAnExportStopsWhereTheWitnessDisagrees(t *testing.T) {
	p := world(t, 7, 30)
	e := p.export(t.TempDir())
	dir := t.TempDir()
	_, err := Export(t.Context(), p.Log, ExportOptions{Dir: dir, Links: []streams.Link{{Log: p.ID(), Seq: 20}}, events: 10})
	var damaged *streams.DamagedError
	require.ErrorAs(t, err, &damaged)
	require.Equal(t, streams.DamageChanged, damaged.Damage)
	_, agreed, err := opened(t, dir).Verify(t.Context(), nil, nil)
	require.NoError(t, err, "what is there is whole")
	require.Zero(t, agreed)

	whole := t.TempDir()
	p.export(whole)
	_, agreed, err = opened(t, whole).Verify(t.Context(), []streams.Link{{Seq: 30, Hash: e.Hash()}}, nil)
	require.NoError(t, err)
	require.Equal(t, 1, agreed)
	_, _, err = opened(t, whole).Verify(t.Context(), []streams.Link{{Seq: 20}}, nil)
	require.ErrorAs(t, err, &damaged)
}

func TestALogIsImportedWhereThereIsNone(t *testing.T) {
	p := world(t, 8, 12)
	dir := t.TempDir()
	p.export(dir)
	var exists *streams.ExistsError
	_, err := opened(t, dir).Import(t.Context(), p.conn, ImportOptions{})
	require.ErrorAs(t, err, &exists)

	// What was cut off is made anew, and nobody opens it before.
	to := empty(t)
	e, err := opened(t, dir).Extent(t.Context())
	require.NoError(t, err)
	_, err = streams.PutBackLog(t.Context(), to.conn, streams.PutBack{Partitions: 8, Base: e.Base, First: 1, Last: 12}, func(yield func(streams.Message, error) bool) {
		yield(streams.Message{Seq: 1, Subject: "edict.log.admission.x", Time: time.Now()}, nil)
	})
	require.Error(t, err, "eleven are missing")
	_, err = streams.OpenLog(t.Context(), to.conn, streams.LogOptions{})
	require.ErrorAs(t, err, new(*streams.UnfinishedError))
	to.Log, err = opened(t, dir).Import(t.Context(), to.conn, ImportOptions{Prove: func(_ context.Context, log *streams.Log) error {
		_, err := streams.OpenLog(t.Context(), to.conn, streams.LogOptions{})
		require.ErrorAs(t, err, new(*streams.UnfinishedError))
		return nil
	}})
	require.NoError(t, err)
	require.Equal(t, p.messages(), to.messages())
	_, err = streams.OpenLog(t.Context(), to.conn, streams.LogOptions{})
	require.NoError(t, err)
}

// TestAnArchiveThatCountsIDsFromAnotherBaseIsNotGoneOnWith where nothing was written
// since: a log made of it would give ids again that nodes have been sent.
func TestAnArchiveThatCountsIDsFromAnotherBaseIsNotGoneOnWith(t *testing.T) {
	p, dir := world(t, 41, 12), t.TempDir()
	p.export(dir)
	require.NoError(t, p.BeginAnew(t.Context(), 0))
	_, err := Export(t.Context(), p.Log, ExportOptions{Dir: dir, events: 10})
	require.ErrorContains(t, err, "event ids count from another base")
	_, err = Export(t.Context(), p.Log, ExportOptions{Dir: dir, events: 10, Backup: true})
	require.NoError(t, err, "a restore has ids begin anew")
	p.grow(42, 3)
	require.Equal(t, p.Base(), p.export(dir).Base)
}

// What may be imported somewhere is known before: servers that lost a log are refused, and
// left as they are.
func TestServersThatTakeNoLogAreKnownBefore(t *testing.T) {
	from, dir := world(t, 1, 12), t.TempDir()
	from.export(dir)
	to := empty(t)
	require.NoError(t, streams.CanPutBack(t.Context(), to.conn))
	_, err := opened(t, dir).Import(t.Context(), to.conn, ImportOptions{})
	require.NoError(t, err)
	refuses := func(detail string) {
		t.Helper()
		var there *streams.ExistsError
		require.ErrorAs(t, streams.CanPutBack(t.Context(), to.conn), &there)
		require.ErrorContains(t, there, detail)
		_, err := opened(t, dir).Import(t.Context(), to.conn, ImportOptions{})
		require.ErrorAs(t, err, &there)
		require.ErrorContains(t, there, detail)
	}
	refuses("there is a log already")
	m, err := to.nc.Request("$JS.API.STREAM.DELETE."+streams.LogStream, nil, 20*time.Second)
	require.NoError(t, err)
	require.NotContains(t, string(m.Data), "error")
	refuses("EDICT_LOG is gone")
}
