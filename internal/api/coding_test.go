package api

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhoTakesGzip(t *testing.T) {
	for header, want := range map[string]bool{
		"gzip": true, "deflate, GZIP;q=0.5": true, "*": true, "": false, "identity": false, "gzip;q=0": false,
		"*;q=0": false, "gzip;q=0, *": false, "*;q=0, gzip": true, "br": false, "gzip;q=x": false,
		"gzip;Q=0": false, "gzip;x=1;q=0": false, "gzip ; q=0.000": false, "gzip;x=1": true, "gzip;q=0.5;x": true, "gzip;q=NaN": false,
	} {
		require.Equal(t, want, takesCoding([]string{header}, "gzip"), header)
	}
	require.True(t, takesCoding([]string{"br", "gzip"}, "gzip"))
	require.False(t, takesCoding(nil, "gzip"))
}

func TestZstdIsForWhoNamesIt(t *testing.T) {
	for header, want := range map[string]string{
		"zstd": "zstd", "gzip, deflate, br, zstd": "zstd", "gzip, ZSTD;q=0.1": "zstd", "gzip, zstd;q=0": "gzip", "*": "gzip", "zstd;q=0": "", "*;q=0, zstd": "zstd",
		"gzip": "gzip", "": "", "dcz": "",
	} {
		require.Equal(t, want, codingFor([]string{header}), header)
	}
}
