package plane

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/integrity"
	"github.com/edictdev/edict/internal/keyring"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
)

func TestEachEndHasItsReason(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{&integrity.RestoredError{}, api.EndedRestored},
		{&integrity.OvertakenError{Err: &streams.CompactedError{}}, api.EndedOvertaken},
		{&projector.CorruptError{}, api.EndedReadModel},
		{&streams.DamagedError{}, api.EndedDamaged},
		{&projector.OtherLogError{}, api.EndedOtherLog},
		{&keyring.OtherKeyError{}, api.EndedKey},
		{context.DeadlineExceeded, api.EndedOther},
	} {
		require.Equal(t, c.want, reasonOf(fmt.Errorf("fold the log: %w", c.err)), "%T", c.err)
	}
}

func metricsOf(p *Plane) []byte {
	w := httptest.NewRecorder()
	p.page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.Bytes()
}

// TestAnEndIsSaidAtTheNextStart: once, in the log and in a metric; an end in order is not.
func TestAnEndIsSaidAtTheNextStart(t *testing.T) {
	opt := Options{Data: t.TempDir(), NoAPI: true, NATSListen: "none", Relaxed: true}
	run := func(ctx context.Context) (log, page string, err error) {
		var out bytes.Buffer
		opt.Log = slog.New(slog.NewTextHandler(&out, nil))
		p, err := Open(t.Context(), opt)
		require.NoError(t, err)
		defer p.Close()
		err = p.Run(ctx)
		return out.String(), string(metricsOf(p)), err
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	log, page, err := run(over)
	require.NoError(t, err)
	require.NotContains(t, log, "ended by itself")
	require.Contains(t, page, "edict_ended_timestamp_seconds{reason=\"restored\"} 0\n")

	p, err := Open(t.Context(), opt)
	require.NoError(t, err)
	require.ErrorContains(t, p.noteEnd(&integrity.RestoredError{Base: 2, Was: 1}), "declared to have been put back")
	p.Close()
	log, page, err = run(over)
	require.NoError(t, err)
	require.Contains(t, log, "the run before this one ended by itself")
	require.Contains(t, log, "reason=restored")
	require.Contains(t, page, "edict_ended_timestamp_seconds{reason=\"restored\"} 1.")

	log, page, err = run(over)
	require.NoError(t, err)
	require.NotContains(t, log, "ended by itself")
	require.Contains(t, page, "edict_ended_timestamp_seconds{reason=\"restored\"} 0\n")
	require.NoError(t, os.WriteFile(filepath.Join(opt.Data, "ended.json"), []byte("{"), 0o600))
	log, _, err = run(over)
	require.NoError(t, err)
	require.Contains(t, log, "reason=other")
}
