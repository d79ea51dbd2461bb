package plane

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/datadir"
	"github.com/edictdev/edict/internal/integrity"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
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
	links, _, err := witnessOf(t, p).Links(t.Context())
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

// TestABackupThatIsPutBackTwiceGetsTwoBases: after the first time nodes were told
// what the second takes back again, and nothing of that is in the backup.
func TestABackupThatIsPutBackTwiceGetsTwoBases(t *testing.T) {
	base := uint64(0)
	for range 2 {
		p, err := Open(t.Context(), Options{Data: data(t), NoAPI: true, NATSListen: "none", Relaxed: true})
		require.NoError(t, err)
		was := base
		base = p.stream.Base()
		p.Close()
		require.Greater(t, base, was)
	}
}

// TestALogPutBackUnderANewerReadModelIsRefused, and nothing is taken for settled:
// once the read model is out of the way event ids begin anew.
func TestALogPutBackUnderANewerReadModelIsRefused(t *testing.T) {
	dir := data(t, chainMessages)
	cut(t, dir, 2000)
	was := storedBase(t, dir)
	opt := Options{Data: dir, NoAPI: true, NATSListen: "none", Relaxed: true}
	files := filesBelow(t, datadir.Dir(dir).Store())
	_, err := Open(t.Context(), opt)
	var other *projector.OtherLogError
	require.ErrorAs(t, err, &other)
	require.Equal(t, was, storedBase(t, dir))
	require.Equal(t, files, filesBelow(t, datadir.Dir(dir).Store()), "a refusal changes no file of the read model")
	require.NoError(t, os.RemoveAll(datadir.Dir(dir).Store()))
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
	_, err = witnessOf(t, p).Append(ctx, 0, link)
	require.NoError(t, err)
	err = <-ended
	var restored *integrity.RestoredError
	require.ErrorAs(t, err, &restored)
	require.ErrorContains(t, err, "start this worker again")
}

// TestALogThatVanishesIsNotWrittenTo: its files go while the plane runs, and what
// the server writes to goes with them.
func TestALogThatVanishesIsNotWrittenTo(t *testing.T) {
	for _, c := range []struct {
		name     string
		vanishes func(dir string) error
	}{
		// Out of the way in one step: the server makes files in it as long as it does not know.
		{"the whole store", func(dir string) error {
			return os.Rename(datadir.Dir(dir).NATS(), filepath.Join(filepath.Dir(dir), "elsewhere"))
		}},
		{"another one in its place", func(dir string) error {
			nats := datadir.Dir(dir).NATS()
			return errors.Join(os.Rename(nats, nats+".away"), os.CopyFS(nats, os.DirFS(nats+".away")))
		}},
		{"its blocks", func(dir string) error { return os.Remove(filepath.Join(dir, logMessages, "1.blk")) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			p := running(t, Options{Data: dir, NATSListen: "none"})
			_, err := p.stream.PublishAll(t.Context(), nodes(1, 3))
			require.NoError(t, err)
			require.NoError(t, p.store.Wait(t.Context(), 3))
			require.NoError(t, p.server.Vanished(), "its files were seen")
			require.NoError(t, c.vanishes(dir))
			err = p.alarmed(t)
			requireDamage(t, err, streams.DamageGone, 0, 0)
			require.ErrorContains(t, err, dir)
			require.ErrorContains(t, err, "is lost")

			status, body := p.get(t, "/readyz")
			require.Equal(t, http.StatusServiceUnavailable, status)
			require.Contains(t, body, dir)
			req, err := http.NewRequest(http.MethodPut, "http://"+p.listeners.HTTP.Addr().String()+"/v1/projects/"+project.String()+"/nodes/n-4", strings.NewReader(`{"labels":{},"addresses":[]}`))
			require.NoError(t, err)
			req.Header.Set("Content-Type", "application/json")
			resp, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			text, err := io.ReadAll(resp.Body)
			require.NoError(t, errors.Join(err, resp.Body.Close()))
			require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode, "%s", text)
			require.Contains(t, string(text), "log_unavailable")
			require.Eventually(t, func() bool {
				_, err := p.stream.PublishAll(t.Context(), nodes(5, 5))
				return errors.Is(err, streams.ErrStorage)
			}, 20*time.Second, 10*time.Millisecond, "producers that do not ask are refused, too")
		})
	}
}

func witnessOf(t *testing.T, p *Plane) *streams.Chain {
	chain, err := streams.FindChain(t.Context(), p.conn)
	require.NoError(t, err)
	return chain
}

// filesBelow are a directory's files and their bytes.
func filesBelow(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		all[e.Name()] = fmt.Sprintf("%x", sha256.Sum256(text))
	}
	return all
}
