package api_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/internal/enforce"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/test/leftout"
	"github.com/edictdev/edict/internal/wire/dcz"
)

// deltas is a plane with a table of many peers, of which two moments are known.
type deltas struct {
	*plane
	old, now []byte // as they are answered whole
}

func newDeltas(t *testing.T) *deltas {
	d := &deltas{plane: newPlane(t)}
	d.put("db", `{"labels":{"role":"db"},"addresses":["10.1.0.1"]}`)
	for i := range 100 {
		d.put(fmt.Sprint("web", i), fmt.Sprintf(`{"labels":{"role":"web"},"addresses":["10.2.0.%d"]}`, i))
	}
	d.want(http.StatusCreated, "", d.do("POST", policies, ordered("walls", "", allowWeb)))
	d.old = d.whole()
	d.put("web100", `{"labels":{"role":"web"},"addresses":["10.2.0.100"]}`)
	d.now = d.whole()
	require.NotEqual(t, d.old, d.now)
	return d
}

func (d *deltas) whole() []byte {
	a := d.do("GET", tableOfDB, "")
	d.want(http.StatusOK, "", a)
	return a.body
}

// held is what the client of an old table has.
func (d *deltas) held() (contents []byte, sum [sha256.Size]byte) {
	contents, err := enforce.Contents(d.old)
	require.NoError(d.t, err)
	return contents, sha256.Sum256(contents)
}

func TestATableIsSentAsTheChangeOfOneThatTheClientHas(t *testing.T) {
	d := newDeltas(t)
	contents, sum := d.held()
	a := d.do("GET", tableOfDB, "", "Accept-Encoding: gzip, dcz", "Available-Dictionary: "+dcz.Name(sum))
	d.want(http.StatusOK, "", a)
	require.Equal(t, "dcz", a.Header.Get("Content-Encoding"))
	require.Equal(t, []string{"Available-Dictionary", "Accept-Encoding"}, a.Header.Values("Vary"))
	require.Less(t, len(a.body)*10, len(d.now))
	got, err := dcz.Decode(bytes.NewReader(a.body), contents, dcz.Max)
	require.NoError(t, err)
	require.Equal(t, string(d.now), string(got))

	for name, header := range map[string][]string{
		"who does not accept it":      {"Accept-Encoding: identity", "Available-Dictionary: " + dcz.Name(sum)},
		"who refuses it":              {"Accept-Encoding: dcz;q=0", "Available-Dictionary: " + dcz.Name(sum)},
		"who has no table":            {"Accept-Encoding: dcz"},
		"who has one nobody knows":    {"Accept-Encoding: dcz", "Available-Dictionary: " + dcz.Name(sha256.Sum256(nil))},
		"whose header says no digest": {"Accept-Encoding: dcz", "Available-Dictionary: x"},
	} {
		a := d.do("GET", tableOfDB, "", header...)
		require.Empty(t, a.Header.Get("Content-Encoding"), name)
		require.Equal(t, string(d.now), string(a.body), name)
	}
}

// A table of another project is no dictionary, whoever knows its fingerprint.
func TestATableOfAnotherProjectIsNoDictionary(t *testing.T) {
	gen.Unraced()
	d := newDeltas(t)
	_, sum := d.held()
	for i := range 100 {
		d.want(http.StatusCreated, "", d.do("PUT", "/v1/projects/"+other+"/nodes/"+fmt.Sprint("theirs", i), fmt.Sprintf(`{"labels":{"role":"web"},"addresses":["10.2.0.%d"]}`, i)))
	}
	d.want(http.StatusCreated, "", d.do("PUT", "/v1/projects/"+other+"/nodes/theirs", `{"labels":{"role":"db"},"addresses":["10.1.0.1"]}`))
	d.want(http.StatusCreated, "", d.do("POST", "/v1/projects/"+other+"/policies", ordered("walls", "", allowWeb)))
	a := d.do("GET", "/v1/nodes/theirs/datapath", "", "Accept-Encoding: dcz", "Available-Dictionary: "+dcz.Name(sum))
	d.want(http.StatusOK, "", a)
	require.Empty(t, a.Header.Get("Content-Encoding"))
}

// The tool of the format's authors reads what is sent.
func TestZstdReadsTheChangeOfATable(t *testing.T) {
	gen.Unraced()
	tool, err := exec.LookPath("zstd")
	if err != nil {
		leftout.Less(t, err)
		return
	}
	d, dir := newDeltas(t), t.TempDir()
	contents, sum := d.held()
	a := d.do("GET", tableOfDB, "", "Accept-Encoding: dcz", "Available-Dictionary: "+dcz.Name(sum))
	held, coded := filepath.Join(dir, "held"), filepath.Join(dir, "coded.zst")
	require.NoError(t, os.WriteFile(held, contents, 0o600))
	require.NoError(t, os.WriteFile(coded, a.body, 0o600))
	got, err := exec.Command(tool, "-d", "-c", "--patch-from="+held, coded).Output()
	require.NoError(t, err)
	require.Equal(t, string(d.now), string(got))
}

// The client has the same table in every coding, also where its own is not to be had.
func TestAClientReadsATableByWhatItHas(t *testing.T) {
	d := newDeltas(t)
	var codings []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.Handler.ServeHTTP(w, r)
		codings = append(codings, w.Header().Get("Content-Encoding"))
	}))
	t.Cleanup(server.Close)
	c, err := client.New(server.URL, client.Options{})
	require.NoError(t, err)
	contents, sum := d.held()
	gone := errors.New("the file is gone")
	for name, x := range map[string]struct {
		held    *client.HeldTable
		codings []string
	}{
		"none":            {nil, []string{"gzip"}},
		"the old one":     {&client.HeldTable{Fingerprint: sum, Read: func() ([]byte, error) { return contents, nil }}, []string{"dcz"}},
		"an unknown one":  {&client.HeldTable{Read: func() ([]byte, error) { return nil, gone }}, []string{"gzip"}},
		"one that is not": {&client.HeldTable{Fingerprint: sum, Read: func() ([]byte, error) { return nil, gone }}, []string{"dcz", "gzip"}},
		"a damaged one":   {&client.HeldTable{Fingerprint: sum, Read: func() ([]byte, error) { return contents[1:], nil }}, []string{"dcz", "gzip"}},
	} {
		codings = nil
		got, err := c.Datapath.Table(context.Background(), "db", client.TableQuery{Held: x.held})
		require.NoError(t, err, name)
		require.Equal(t, string(d.now), string(got.Body), name)
		require.Equal(t, x.codings, codings, name)
	}
}
