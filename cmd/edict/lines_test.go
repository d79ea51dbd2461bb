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
	pack := func(text string) []byte {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		_, err := io.WriteString(z, text)
		require.NoError(t, err)
		require.NoError(t, z.Close())
		return packed.Bytes()
	}

	for _, c := range []struct {
		name  string
		bytes []byte
		want  string
		total int64
	}{
		{"plain", []byte(text), text, 2},
		{"packed", pack(text), text, 0},
		{"short", []byte("x"), "x", 0},
		{"empty", nil, "", 0},
		{"marked, as on Windows", []byte("\ufeff" + text), text, 2},
		{"marked and packed", pack("\ufeff" + text), text, 0},
		{"nothing but the mark", []byte("\ufeff"), "", 0},
	} {
		file := filepath.Join(t.TempDir(), c.name)
		require.NoError(t, os.WriteFile(file, c.bytes, 0o600))
		for _, from := range []string{file, "-"} {
			a := &console{stdin: bytes.NewReader(c.bytes)}
			r, _, total, err := a.lines(from)
			require.NoError(t, err, c.name)
			got, err := io.ReadAll(r)
			require.NoError(t, err)
			require.NoError(t, r.Close())
			require.Equal(t, c.want, string(got), c.name)
			if from == file {
				require.Equal(t, c.total, total, c.name)
			}
		}
	}
}
