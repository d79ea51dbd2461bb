package plane

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/internal/listener"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

var project = uuid.MustParse("00000000-0000-4000-8000-000000000000")

// start runs a plane until the test ends, or stop is called.
func start(t *testing.T, opt Options) (at Addresses, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan Addresses, 1), make(chan error, 1)
	opt.HTTP, opt.Ready = cmp.Or(opt.HTTP, "127.0.0.1:0"), func(a Addresses) { ready <- a }
	go func() { ended <- Run(ctx, opt) }()
	stop = func() {
		cancel()
		if ended != nil {
			require.NoError(t, <-ended)
			ended = nil
		}
	}
	t.Cleanup(stop)
	select {
	case at = <-ready:
	case err := <-ended:
		ended = nil
		require.NoError(t, err, "ended before it was ready")
	}
	return at, stop
}

func newClient(t *testing.T, at Addresses) *client.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c, err := client.New("http://"+at.HTTP, client.Options{HTTP: &http.Client{Transport: transport}})
	require.NoError(t, err)
	return c
}

func TestWhatTheFoldRejectsIsReported(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p, err := Open(ctx, Options{Data: t.TempDir(), HTTP: "127.0.0.1:0", NATSListen: "127.0.0.1:0", Relaxed: true})
	require.NoError(t, err)
	defer p.Close()
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()

	seq, _, err := p.stream.Publish(ctx, streams.Append{Event: policy.RevisionCreated{ // of a policy that never was, on top of a head
		ID: uuid.New(), Project: project, Policy: uuid.New(), Slug: "web",
		Revision: policy.Revision{ID: uuid.New(), Parent: uuid.New(), CreatedAt: time.Now()},
	}})
	require.NoError(t, err)
	require.NoError(t, p.store.Wait(ctx, seq))
	list, err := p.store.Rejections(0, 10)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Eventually(t, func() bool {
		left, err := p.store.Unreported(10)
		return err == nil && len(left) == 0
	}, 20*time.Second, time.Millisecond)
	// Where a producer with a NATS client looks for it.
	nc, err := nats.Connect(p.Addresses().NATS)
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	stream, err := js.Stream(ctx, "EDICT_REJECTED")
	require.NoError(t, err)
	m, err := stream.GetLastMsgForSubject(ctx, fmt.Sprintf("edict.rejected.%d", seq))
	require.NoError(t, err)
	require.Contains(t, string(m.Data), list[0].Code)
	cancel()
	require.NoError(t, <-ended)
}

// A web page may have its own name lead to this machine. Where nobody has to prove who it is, its
// requests are of the plane's own origin, as its browser sees it.
func TestAPageUnderANameOfItsOwnReachesNoPlaneOnLoopback(t *testing.T) {
	ask := func(at Addresses, method, path, host string) (status int, said string) {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+at.HTTP+path, nil)
		require.NoError(t, err)
		r.Host = host
		r.Header.Set("Origin", "http://"+host)
		res, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return res.StatusCode, string(body)
	}
	node := "/v1/projects/" + project.String() + "/nodes/web-1"
	at, _ := start(t, Options{Data: t.TempDir(), Relaxed: true})
	for _, host := range []string{"page.example:8080", "page.example", "127.0.0.1.page.example", "localhost.page.example:80", "[::1].page.example", "plane"} {
		for method, path := range map[string]string{http.MethodGet: "/v1/status", http.MethodDelete: node} {
			status, said := ask(at, method, path, host)
			require.Equal(t, http.StatusBadRequest, status, "%s %s", method, host)
			require.Contains(t, said, "bad_header")
		}
	}
	for _, host := range []string{at.HTTP, "localhost:1", "LOCALHOST", "plane.localhost:8080", "127.0.0.1", "[::1]:8080", "[::1]", "192.0.2.7:8080"} {
		status, said := ask(at, http.MethodGet, "/v1/status", host)
		require.Equal(t, http.StatusOK, status, "%s: %s", host, said)
	}
	status, _ := ask(at, http.MethodGet, "/livez", "plane.example")
	require.Equal(t, http.StatusOK, status, "it says nothing of the plane")

	at, _ = start(t, Options{Data: t.TempDir(), Relaxed: true, Access: listener.Options{Insecure: true}})
	status, _ = ask(at, http.MethodGet, "/v1/status", "plane.example")
	require.Equal(t, http.StatusOK, status, "others may reach it, by any name")
}

func TestTheKeyOutlivesTheProcess(t *testing.T) {
	dir := t.TempDir()
	at, stop := start(t, Options{Data: dir, Relaxed: true})
	before, err := newClient(t, at).Keys.List(t.Context())
	require.NoError(t, err)
	stop()
	at, _ = start(t, Options{Data: dir, Relaxed: true})
	after, err := newClient(t, at).Keys.List(t.Context())
	require.NoError(t, err)
	require.Equal(t, before, after)
	info, err := os.Stat(filepath.Join(dir, "signing.key"))
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())
}

func TestAProcessWithoutRolesOnlyFolds(t *testing.T) {
	at, _ := start(t, Options{Data: t.TempDir(), NoAPI: true, Announce: []int{}, Relaxed: true})
	require.Empty(t, at.HTTP)
}

func TestWhatIsLeftOpenAfterAFailedStartIsNothing(t *testing.T) {
	dir := t.TempDir()
	_, err := Open(t.Context(), Options{Data: dir, HTTP: "127.0.0.1:0", SigningKey: filepath.Join(dir, "none.pem")})
	require.ErrorIs(t, err, os.ErrNotExist)
	_, stop := start(t, Options{Data: dir, Relaxed: true}) // the data are free again
	stop()
}
