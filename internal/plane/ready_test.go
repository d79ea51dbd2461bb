package plane

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/streams"
)

// TestAPlaneWhoseLogTakesNothingIsNotReady: everything else of it works.
func TestAPlaneWhoseLogTakesNothingIsNotReady(t *testing.T) {
	dir := data(t)
	e := startExternal(t, dir)
	p := running(t, e.worker(t, dir))
	p.serves(t)
	js := e.js(t)
	stream, err := js.Stream(t.Context(), streams.LogStream)
	require.NoError(t, err)
	as := stream.CachedInfo().Config
	edited := as
	edited.Subjects = []string{"elsewhere.>"}
	_, err = js.UpdateStream(t.Context(), edited)
	require.NoError(t, err)

	status, body := p.get(t, "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, body, "writes (stream EDICT_LOG takes no events as it is set (nats stream edit EDICT_LOG): subjects is elsewhere.")
	require.NotContains(t, body, "chain (", "nothing is damaged")
	require.Equal(t, 1, strings.Count(body, `"status":"failed"`), "one cause is named: %s", body)
	require.NotContains(t, body, "too many", "nor another one beside it")

	_, err = js.UpdateStream(t.Context(), as)
	require.NoError(t, err)
	status, body = p.get(t, "/readyz")
	require.Equal(t, http.StatusOK, status, body)
}
