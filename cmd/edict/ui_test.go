package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheLinkIsBelowThePlanesAddress however that is written.
func TestTheLinkIsBelowThePlanesAddress(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"path":"/ui/#code=c"}`))
	}))
	defer server.Close()
	for _, at := range []string{server.URL, server.URL + "/", strings.TrimPrefix(server.URL, "http://")} {
		code, out, errs := edict(t, "ui", "--server", at)
		require.Zero(t, code, errs)
		require.Equal(t, server.URL+"/ui/#code=c\n", out, at)
	}
}
