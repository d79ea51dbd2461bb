package api_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/gen"
)

// What is large is gzip-coded for who takes that, and says the same.
func TestWhatIsLargeIsCoded(t *testing.T) {
	gen.Unraced()
	p := newPlane(t)
	unpacker, err := zstd.NewReader(nil)
	require.NoError(t, err)
	defer unpacker.Close()
	var lines, rules strings.Builder
	for i := range 100 {
		fmt.Fprintf(&lines, `{"id":"n%d","labels":{"role":"web"}}`+"\n", i)
		fmt.Fprintf(&rules, `,{"action":"allow","protocol":"tcp","source_cidr":"10.0.0.0/8","destination_cidr":"10.1.0.0/16","ports":{"from":%d,"to":%d}}`, i+1, i+1)
	}
	p.want(http.StatusOK, "", p.do("POST", nodes+":batch", lines.String(), "Content-Type: application/x-ndjson"))
	made := p.do("POST", policies, strings.Replace(draft("web"), webRules, "["+rules.String()[1:]+"]", 1))
	p.want(http.StatusCreated, "", made)
	for _, path := range []string{nodes + "?limit=200", "/v1/nodes?limit=200", made.Header.Get("Location"), "/v1/audit?limit=200", "/v1/nodes/n1/state", "/v1/nodes/n1/rulesets", "/v1/nodes/n1/policies", "/openapi.json"} {
		plain := p.do("GET", path, "")
		require.Equal(t, http.StatusOK, plain.StatusCode, "%s", plain.body)
		coded := p.do("GET", path, "", "Accept-Encoding: gzip")
		require.Equal(t, "gzip", coded.Header.Get("Content-Encoding"), path)
		require.Equal(t, "Accept-Encoding", coded.Header.Get("Vary"))
		for _, name := range []string{"Cache-Control", "ETag", "Content-Type"} {
			require.Equal(t, plain.Header.Get(name), coded.Header.Get(name), path)
		}
		require.Less(t, len(coded.body), len(plain.body)/2, path)
		z, err := gzip.NewReader(strings.NewReader(string(coded.body)))
		require.NoError(t, err)
		text, err := io.ReadAll(z)
		require.NoError(t, err)
		require.Equal(t, string(plain.body), string(text), path)

		packed := p.do("GET", path, "", "Accept-Encoding: gzip, deflate, br, zstd")
		require.Equal(t, "zstd", packed.Header.Get("Content-Encoding"), path)
		require.Less(t, len(packed.body), len(plain.body)/2, path)
		text, err = unpacker.DecodeAll(packed.body, nil)
		require.NoError(t, err)
		require.Equal(t, string(plain.body), string(text), path)
	}
	small := p.do("GET", nodes+"/n1", "", "Accept-Encoding: gzip")
	require.Empty(t, small.Header.Get("Content-Encoding"))
}
