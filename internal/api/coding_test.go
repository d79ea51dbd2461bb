package api

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhoTakesGzip(t *testing.T) {
	for header, want := range map[string]bool{
		"gzip": true, "deflate, GZIP;q=0.5": true, "*": true, "": false, "identity": false, "gzip;q=0": false,
		"*;q=0": false, "gzip;q=0, *": false, "*;q=0, gzip": true, "br": false, "gzip;q=x": false,
	} {
		require.Equal(t, want, takesCoding([]string{header}, "gzip"), header)
	}
	require.True(t, takesCoding([]string{"br", "gzip"}, "gzip"))
	require.False(t, takesCoding(nil, "gzip"))
}
