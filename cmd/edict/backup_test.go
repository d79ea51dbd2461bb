package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
)

// TestABackupDoesNotWaitForAFoldThatStandsStill: a plane whose log is damaged folds nothing
// more, and says so.
func TestABackupDoesNotWaitForAFoldThatStandsStill(t *testing.T) {
	l := openLedger(t, t.TempDir())
	defer l.close()
	l.add(3)
	answer := func(w http.ResponseWriter, status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, resource.Status{Head: 3, Applied: 2, Log: resource.LogStatus{Created: l.log.Created()}})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusServiceUnavailable, resource.Problem{Status: http.StatusServiceUnavailable, Code: "not_ready", Checks: []resource.Check{
			{Name: "fold", Status: "failed", Detail: "behind"}, {Name: "chain", Status: "failed", Detail: "event 3 is another one"},
		}})
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	c, err := client.New(s.URL, client.Options{})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err = folded(ctx, c, &logSource{conn: l.conn, log: l.log})
	require.ErrorContains(t, err, "has folded 2 of 3 events, and goes no further: event 3 is another one")
	require.Equal(t, cli.Unavailable, exitCode(err))
}
