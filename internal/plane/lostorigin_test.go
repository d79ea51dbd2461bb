package plane

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/output"
)

// What a compacted log begins with is all that is left of what was removed. Who deletes it while
// workers run, which need it no more, hears of that before the next start does.
func TestALostOriginIsSaidWhileThePlaneRuns(t *testing.T) {
	dir := data(t)
	e := startExternal(t, dir)
	var out output.Buffer
	opt := e.worker(t, dir)
	opt.Log = slog.New(slog.NewTextHandler(&out, nil))
	p := running(t, opt)
	p.serves(t)
	p.compacts(t, 1700)
	o, err := streams.FindOrigin(t.Context(), p.conn)
	require.NoError(t, err)
	r, err := snapshot.OriginObject(t.Context(), p.conn, p.stream, o)
	require.NoError(t, err)
	object, err := io.ReadAll(r)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	m, err := snapshot.OpenOrigin(o.Document, p.keys.Was)
	require.NoError(t, err)
	client := newClient(t, Addresses{HTTP: p.listeners.HTTP.Addr().String()})
	says := func(status, detail string) {
		t.Helper()
		require.Eventually(t, func() bool {
			ready, err := client.Ready(t.Context())
			require.NoError(t, err, "the plane serves all the same")
			for _, c := range ready.Checks {
				if c.Name == "origin" {
					return c.Status == status && strings.Contains(c.Detail, detail)
				}
			}
			return false
		}, 20*time.Second, time.Millisecond, detail)
	}
	says("ok", "")

	require.NoError(t, e.js(t).DeleteStream(t.Context(), "OBJ_EDICT_SNAPSHOTS"))
	says("info", "OBJ_EDICT_SNAPSHOTS")
	objects, err := streams.MakeObjects(t.Context(), p.conn, snapshot.Store, "")
	require.NoError(t, err)
	says("info", "OBJ_EDICT_SNAPSHOTS")
	_, err = objects.Put(t.Context(), m.Name, bytes.NewReader(object))
	require.NoError(t, err)
	says("ok", "")

	require.NoError(t, e.js(t).DeleteStream(t.Context(), "KV_EDICT_META"))
	says("info", "KV_EDICT_META")
	o.Revision = 0
	_, err = streams.RecordOrigin(t.Context(), p.conn, o)
	require.NoError(t, err)
	says("ok", "")
	require.Equal(t, 2, strings.Count(out.String(), "what the log begins with is lost"), "once each")
	require.Equal(t, 2, strings.Count(out.String(), "what the log begins with is there again"))
	require.NoError(t, p.alarm.Raised())
}
