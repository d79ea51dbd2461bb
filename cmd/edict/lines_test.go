package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLinesAreCountedAndInflated(t *testing.T) {
	const text = "one\ntwo\n"
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := io.WriteString(z, text)
	require.NoError(t, err)
	require.NoError(t, z.Close())

	for _, c := range []struct {
		name  string
		bytes []byte
		total int64
	}{{"plain", []byte(text), 2}, {"packed", packed.Bytes(), 0}, {"short", []byte("x"), 0}, {"empty", nil, 0}} {
		file := filepath.Join(t.TempDir(), c.name)
		require.NoError(t, os.WriteFile(file, c.bytes, 0o600))
		for _, from := range []string{file, "-"} {
			a := &console{stdin: bytes.NewReader(c.bytes)}
			r, _, total, err := a.lines(from)
			require.NoError(t, err, c.name)
			got, err := io.ReadAll(r)
			require.NoError(t, err)
			require.NoError(t, r.Close())
			want := string(c.bytes)
			if c.name == "packed" {
				want = text
			}
			require.Equal(t, want, string(got))
			if from == file {
				require.Equal(t, c.total, total, c.name)
			}
		}
	}
}
