package plane

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/projector"
	"github.com/edictdev/edict/streams"
)

// storedBase is what the log of a stopped server has event ids count from.
func storedBase(t *testing.T, dir string) uint64 {
	text, err := os.ReadFile(filepath.Join(dir, filepath.Dir(logMessages), "meta.inf"))
	require.NoError(t, err)
	var meta struct {
		Metadata map[string]string `json:"metadata"`
	}
	require.NoError(t, json.Unmarshal(text, &meta))
	base, err := strconv.ParseUint(meta.Metadata["edict.base"], 10, 64)
	require.NoError(t, err)
	return base
}

// TestEventIDsBeginAnewOnceWhereTheLogWasPutBack: the next start finds the log
// where it is.
func TestEventIDsBeginAnewOnceWhereTheLogWasPutBack(t *testing.T) {
	dir := data(t)
	was := storedBase(t, dir)
	opt := Options{Data: dir, NoAPI: true, NATSListen: "none", Relaxed: true}
	p, err := Open(t.Context(), opt)
	require.NoError(t, err)
	base := p.stream.Base()
	require.Greater(t, base, was+folded)
	require.Equal(t, base, p.store.Base())
	links, _, err := p.witness.chain.Links(t.Context())
	p.Close()
	require.NoError(t, err)
	last := links[len(links)-1]
	require.True(t, last.Restored, "the witness notes it")
	require.Equal(t, base, last.Base)
	require.Equal(t, links[len(links)-2].Seq, last.Seq)

	p, err = Open(t.Context(), opt)
	require.NoError(t, err)
	defer p.Close()
	require.Equal(t, base, p.stream.Base())
}

// TestALogPutBackUnderANewerReadModelIsRefused, and nothing is taken for settled:
// once the read model is out of the way event ids begin anew.
func TestALogPutBackUnderANewerReadModelIsRefused(t *testing.T) {
	dir := data(t, chainMessages)
	cut(t, dir, 2000)
	was := storedBase(t, dir)
	opt := Options{Data: dir, NoAPI: true, NATSListen: "none", Relaxed: true}
	_, err := Open(t.Context(), opt)
	var other *projector.OtherLogError
	require.ErrorAs(t, err, &other)
	require.Equal(t, was, storedBase(t, dir))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, storeName)))
	p, err := Open(t.Context(), opt)
	require.NoError(t, err)
	defer p.Close()
	require.Greater(t, p.stream.Base(), was+folded)
}

// TestAWorkerEndsWhenItsLogIsDeclaredPutBack: it gives ids that are over.
func TestAWorkerEndsWhenItsLogIsDeclaredPutBack(t *testing.T) {
	p, err := Open(t.Context(), Options{Data: t.TempDir(), NoAPI: true, NATSListen: "none", Relaxed: true, Announce: []int{}})
	require.NoError(t, err)
	defer p.Close()
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { ended <- p.Run(ctx) }()
	_, err = p.stream.PublishAll(ctx, nodes(1, 3))
	require.NoError(t, err)
	require.NoError(t, p.store.Wait(ctx, 3))

	log, err := streams.OpenLog(ctx, p.conn, streams.LogOptions{})
	require.NoError(t, err)
	require.NoError(t, log.BeginAnew(ctx, 0))
	link := p.store.Head()
	link.Base, link.Accepted, link.Restored = log.Base(), true, true
	_, err = p.witness.chain.Append(ctx, 0, link)
	require.NoError(t, err)
	err = <-ended
	var restored *RestoredError
	require.ErrorAs(t, err, &restored)
	require.ErrorContains(t, err, "start this worker again")
}
