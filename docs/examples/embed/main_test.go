package main

import (
	"bytes"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// TestItRunsAsIsAndEndsCleanly: on a temporary directory, and twice on one that is
// given.
func TestItRunsAsIsAndEndsCleanly(t *testing.T) {
	defer goleak.VerifyNone(t)
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	dir := t.TempDir()
	for _, dir := range []string{"", dir, dir} {
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), dir, &out))
		require.Equal(t, 1, strings.Count(out.String(), "\n"), out.String())
		require.Contains(t, out.String(), "web-1 received policy ")
		require.Contains(t, out.String(), `"ports":{"from":443,"to":443}`)
	}
}

func TestItFitsOnAPage(t *testing.T) {
	text, err := os.ReadFile("main.go")
	require.NoError(t, err)
	require.LessOrEqual(t, bytes.Count(text, []byte("\n")), 100)
}
