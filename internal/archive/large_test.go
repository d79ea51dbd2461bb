package archive

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// TestAnArchiveIsReadEventByEvent: however many there are, they take no more memory
// than the first of them.
func TestAnArchiveIsReadEventByEvent(t *testing.T) {
	const events, size = 32, 64 << 10
	w := writer{at: directory(t.TempDir()), header: Header{Log: "1", Partitions: 1, Begins: 1}, events: segmentEvents, bytes: segmentBytes}
	body := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	for i := range uint64(events) {
		m := message(i + 1)
		m.Body = body
		require.NoError(t, w.add(m))
	}
	require.NoError(t, w.end())
	n, heap := 0, []uint64(nil)
	for m, err := range opened(t, string(w.at.(directory))).Messages(0) {
		require.NoError(t, err)
		require.True(t, bytes.Equal(body, m.Body))
		if n++; n%8 == 0 {
			var stats runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&stats)
			heap = append(heap, stats.HeapAlloc)
		}
	}
	require.Equal(t, events, n)
	require.Less(t, heap[len(heap)-1], heap[0]+8*size)
}

// TestALargeEventIsImported: one of more bytes than go to a server at once, or come from
// one together.
func TestALargeEventIsImported(t *testing.T) {
	p := world(t, 30, 12)
	body := bytes.Repeat([]byte("\xff\x00 no text"), batchBytes/10+1)
	p.publish("edict.log.00000000-0000-4000-8000-000000000000.node.n-1", body)
	dir := t.TempDir()
	p.export(dir)
	to := empty(t)
	log, err := opened(t, dir).Import(t.Context(), to.conn, ImportOptions{})
	require.NoError(t, err)
	m, err := log.Get(t.Context(), 13)
	require.NoError(t, err)
	require.True(t, bytes.Equal(body, m.Body))
}

// TestAnExportIsOfOneMoment: it ends where the log ended as it began, whatever is
// appended meanwhile.
func TestAnExportIsOfOneMoment(t *testing.T) {
	p := world(t, 31, 50)
	var g errgroup.Group
	g.Go(func() error {
		for i := range 60 {
			event := policy.NodeUpdated{ID: uuid.NewSHA1(uuid.Nil, fmt.Append(nil, i)), Project: uuid.UUID{1}, Node: "n-1"}
			if _, _, err := p.Publish(t.Context(), streams.Append{Event: event}); err != nil {
				return err
			}
		}
		return nil
	})
	dir := t.TempDir()
	var e Extent
	for range 4 {
		before, err := p.State(t.Context())
		require.NoError(t, err)
		e, err = Export(t.Context(), p.Log, ExportOptions{Dir: dir})
		require.NoError(t, err)
		require.GreaterOrEqual(t, e.Last, before.Last)
	}
	require.NoError(t, g.Wait())
	whole, _, err := opened(t, dir).Verify(t.Context(), nil, nil)
	require.NoError(t, err)
	require.Equal(t, e, whole)
	require.Equal(t, p.exported(e.Last), e.Chain)
}

// TestAnImportThatWaitsForItsArchiveGoesOn: a server gives up a restore that says nothing
// for five seconds, and an archive may come slowly.
func TestAnImportThatWaitsForItsArchiveGoesOn(t *testing.T) {
	p, to := world(t, 32, 2), empty(t)
	parts, err := to.nc.SubscribeSync("$JS.SNAPSHOT.RESTORE.>")
	require.NoError(t, err)
	require.NoError(t, to.nc.Flush())
	all := p.messages()
	log, err := streams.PutBackLog(t.Context(), to.conn, streams.PutBack{Partitions: 8, Base: p.Base(), First: 1, Last: 2}, func(yield func(streams.Message, error) bool) {
		if !yield(all[0], nil) {
			return
		}
		// The archive gives nothing new until the server was sent two parts meanwhile.
		for range 2 {
			_, err := parts.NextMsg(20 * time.Second)
			require.NoError(t, err)
		}
		yield(all[1], nil)
	})
	require.NoError(t, err)
	to.Log = log
	require.Equal(t, all, to.messages())
}
