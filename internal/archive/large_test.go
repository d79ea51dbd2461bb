package archive

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// TestALargeEventIsReadByItself: many of the largest events take no more memory than a
// few of them.
func TestALargeEventIsReadByItself(t *testing.T) {
	const events, size = 24, 1 << 20
	w := writer{dir: t.TempDir(), header: Header{Log: "1", Partitions: 1, Begins: 1}, events: segmentEvents, bytes: segmentBytes}
	body := bytes.Repeat([]byte(`{"text":"<nothing> is like it"}`+"\n"), size/31)
	for i := range uint64(events) {
		m := message(i + 1)
		m.Body = body
		require.NoError(t, w.add(m))
	}
	require.NoError(t, w.end())
	n, most := 0, uint64(0)
	for m, err := range opened(t, w.dir).Messages(0) {
		require.NoError(t, err)
		require.True(t, bytes.Equal(body, m.Body))
		n++
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		most = max(most, stats.HeapAlloc)
	}
	require.Equal(t, events, n)
	require.Less(t, most, uint64(events*size), "one by one")
}

func TestALargeEventIsImported(t *testing.T) {
	p := world(t, 30, 12)
	body := bytes.Repeat([]byte("\"a line\"\n"), 7<<20/9)
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
		for i := range 200 {
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
