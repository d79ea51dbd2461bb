package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// A command that waits for its turn says why it is slow, once.
func TestWhoWaitsForHisTurnIsTold(t *testing.T) {
	var asked atomic.Int32
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) <= 2 {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = w.Write([]byte(`{"status":429,"code":"too_many_requests"}`))
			return
		}
		_, _ = w.Write([]byte(`{"items":[]}`))
	}))
	defer h.Close()
	var out, said bytes.Buffer
	require.Equal(t, 0, run(t.Context(), []string{"policy", "list", "--server", h.URL}, strings.NewReader(""), &out, &said), said.String())
	require.Equal(t, int32(3), asked.Load())
	require.Equal(t, 1, strings.Count(said.String(), "more requests a second are sent than the plane takes"), said.String())
}
