package main

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"testing"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/cmd/internal/cli"
)

// TestTheChartsFlagsAreOurs holds the arguments in the chart against the flags.
func TestTheChartsFlagsAreOurs(t *testing.T) {
	text, err := os.ReadFile("../../deploy/helm/edict/templates/controller.yaml")
	require.NoError(t, err)
	args := regexp.MustCompile(`(?m)^ +- --([a-z-]+)=`).FindAllSubmatch(text, -1)
	require.Greater(t, len(args), 6)
	flags := (&app{}).rootCommand().Flags()
	for _, m := range args {
		require.NotNil(t, flags.Lookup(string(m[1])), "%s", m[1])
	}
}

func TestTheControllerSaysItsVersion(t *testing.T) {
	var out, errors bytes.Buffer
	require.Equal(t, cli.Fine, run(t.Context(), []string{"version"}, &out, &errors), &errors)
	require.Regexp(t, `^edict-controller \S+ `, out.String())
}

// TestWhatCannotWorkIsSaidAtOnce, with the exit code for it.
func TestWhatCannotWorkIsSaidAtOnce(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	bad := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(bad, []byte("clusters: ["), 0o600))
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{nil, cli.BadUsage, "--kubeconfig FILE"},
		{[]string{"--kubeconfig", bad}, cli.Unreadable, "the cluster's address"},
		{[]string{"--project", "one"}, cli.BadUsage, "is not a UUID"},
		{[]string{"--cluster", "the first,"}, cli.BadUsage, "the value of a label"},
		{[]string{"--lease", "one"}, cli.BadUsage, "namespace/name"},
		{[]string{"--lease", "one/two/three"}, cli.BadUsage, "namespace/name"},
		{[]string{"--lease", "/one"}, cli.BadUsage, "namespace/name"},
		{[]string{"--debounce", "0s"}, cli.BadUsage, "above 0"},
		{[]string{"--token-file", bad, "--server", "http://plane.example"}, cli.BadUsage, "in the clear"},
		{[]string{"--ca", bad}, cli.Unreadable, "no certificate"},
		{[]string{"--log-level", "loud"}, cli.BadUsage, "--log-level"},
		{[]string{"--unknown"}, cli.BadUsage, "--unknown"},
	} {
		var out, errors bytes.Buffer
		require.Equal(t, c.code, run(t.Context(), c.args, &out, &errors), "%v: %s", c.args, &errors)
		require.Contains(t, errors.String(), c.says)
	}
}

// TestTwoControllersOfOneHostHaveNamesOfTheirOwn: of two with one name each takes the Lease for
// its own, and both write.
func TestTwoControllersOfOneHostHaveNamesOfTheirOwn(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(config, []byte(`{"clusters":[{"name":"a","cluster":{"server":"http://127.0.0.1:1"}}],"contexts":[{"name":"a","context":{"cluster":"a"}}],"current-context":"a"}`), 0o600))
	name := func(args ...string) string {
		a := &app{}
		cmd := a.rootCommand()
		require.NoError(t, cmd.ParseFlags(append(args, "--kubeconfig", config)))
		require.NoError(t, a.complete(cmd))
		return a.opt.Name
	}
	host, err := os.Hostname()
	require.NoError(t, err)
	first, second := name(), name()
	require.NotEqual(t, first, second)
	require.Contains(t, first, host)
	require.Equal(t, "one", name("--name", "one"))
}

// TestAPlaneThatNeverAnswersIsNotWaitedForForEver: as one whose machine was stopped.
func TestAPlaneThatNeverAnswersIsNotWaitedForForEver(t *testing.T) {
	asked := make(chan struct{}, 1)
	silent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	defer silent.Close()
	a := &app{server: silent.URL, patience: 100 * time.Millisecond}
	c, err := a.http(a.rootCommand())
	require.NoError(t, err)
	_, err = c.Get(silent.URL)
	<-asked
	var late net.Error
	require.ErrorAs(t, err, &late)
	require.True(t, late.Timeout())
}

// A plane, or what stands before it, may send a client on from TLS to the same address without.
func TestATokenIsNotSentOnInTheClear(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("edt_it\n"), 0o600))
	a := &app{server: "https://plane.example", tokenFile: file}
	client, err := a.http(nil)
	require.NoError(t, err)
	var shown []string
	client.Transport.(*bearer).next = answering(func(r *http.Request) *http.Response {
		shown = append(shown, r.URL.String()+" "+r.Header.Get("Authorization"))
		res := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: r}
		if r.URL.Scheme == "https" {
			res.StatusCode = http.StatusFound
			res.Header.Set("Location", "http://plane.example/")
		}
		return res
	})
	res, err := client.Get("https://plane.example/v1/keys")
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, []string{"https://plane.example/v1/keys Bearer edt_it", "http://plane.example/ "}, shown)
}

// A Secret's file may be empty for a moment while it is renewed, or gone.
func TestTheLastTokenIsSentWhileItsFileIsHalfWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	a := &app{server: "https://plane.example", tokenFile: file}
	write("")
	_, err := a.http(nil)
	require.ErrorContains(t, err, "want one token", "at the start there is no last one")
	write("edt_a\n")
	client, err := a.http(nil)
	require.NoError(t, err)
	var shown string
	client.Transport.(*bearer).next = answering(func(r *http.Request) *http.Response {
		shown = r.Header.Get("Authorization")
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: r}
	})
	sends := func() string {
		res, err := client.Get("https://plane.example/v1/keys")
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return shown
	}
	require.Equal(t, "Bearer edt_a", sends())
	write("")
	require.Equal(t, "Bearer edt_a", sends(), "while it is being written")
	require.NoError(t, os.Remove(file))
	require.Equal(t, "Bearer edt_a", sends(), "while it is being replaced")
	write("edt_b\n")
	require.Equal(t, "Bearer edt_b", sends())
}

// TestTheCollectorKeepsToTheContainersLimit, unless the operator gave it another.
func TestTheCollectorKeepsToTheContainersLimit(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	const gigabyte = 1 << 30
	group := func() (uint64, error) { return gigabyte, nil }
	t.Setenv("GOMEMLIMIT", "900MiB")
	staysWithinGroup(group)
	require.Equal(t, before, debug.SetMemoryLimit(-1))
	t.Setenv("GOMEMLIMIT", "")
	staysWithinGroup(func() (uint64, error) { return 0, memlimit.ErrNoLimit })
	require.Equal(t, before, debug.SetMemoryLimit(-1))
	staysWithinGroup(group)
	require.InDelta(t, gigabyte*9/10, debug.SetMemoryLimit(-1), 100)
}

// answering is a server that is not there.
type answering func(r *http.Request) *http.Response

// RoundTrip implements http.RoundTripper.
func (f answering) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }
