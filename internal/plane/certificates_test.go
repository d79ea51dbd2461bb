package plane

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"math/big"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/test/authority"
)

// get asks for the plane's keys as somebody, on a transport of his.
func (w who) get(transport *http.Transport) error {
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, "https://"+w.at.HTTP+"/v1/keys", nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+w.tokens[w.name])
	res, err := transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return err
}

// presented is the serial number of the certificate that a new connection meets.
func (g *guarded) presented() *big.Int {
	c, err := tls.Dial("tcp", g.at.HTTP, g.trust)
	require.NoError(g.t, err)
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].SerialNumber
}

// Certificate, key and authorities are replaced, file after file, while clients
// come and stay: no request fails, what stands goes on, and what comes meets the
// new certificate. An authority that was taken away is believed no longer, also
// by way of a session of before.
func TestCertificatesAreRotatedUnderLoad(t *testing.T) {
	g := startGuarded(t, false)
	root, n1 := who{g, "root"}, who{g, "n1"}
	require.NoError(t, root.http("PUT", "/v1/projects/"+ours+"/nodes/n1", `{"labels":{"role":"web"}}`))
	pools, ok := access.ReadCA(g.ca.File("ca.crt"))
	require.NoError(t, ok)
	leaving := &tls.Config{
		RootCAs: pools, MinVersion: tls.VersionTLS13, ClientSessionCache: tls.NewLRUClientSessionCache(4),
		Certificates: []tls.Certificate{issue(t, g.ca, "leaving", "spiffe://edict.test/root")},
	}
	byCertificate := func() error {
		transport := &http.Transport{TLSClientConfig: leaving, DisableKeepAlives: true}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+g.at.HTTP+"/v1/keys", nil)
		require.NoError(t, err)
		res, err := transport.RoundTrip(r)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		_, _ = io.Copy(io.Discard, res.Body) // what the server sends of sessions is read
		if res.StatusCode != http.StatusOK {
			return os.ErrPermission
		}
		return nil
	}
	require.NoError(t, byCertificate())
	before := g.presented()

	// What stands: a stream of events, and a connection to NATS.
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+g.at.HTTP+"/v1/nodes/n1/events", nil)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+g.tokens["n1"])
	standing := &http.Transport{TLSClientConfig: g.trust}
	defer standing.CloseIdleConnections()
	stream, err := standing.RoundTrip(r)
	require.NoError(t, err)
	defer stream.Body.Close()
	require.Equal(t, http.StatusOK, stream.StatusCode)
	nc, err := n1.nats()
	require.NoError(t, err)

	// What comes, each request on a connection of its own or on one that stays: some hundreds a second.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var load sync.WaitGroup
	for _, alone := range []bool{true, false} {
		transport := &http.Transport{TLSClientConfig: g.trust.Clone(), DisableKeepAlives: alone}
		defer transport.CloseIdleConnections()
		load.Go(func() {
			for pace := time.NewTicker(5 * time.Millisecond); ctx.Err() == nil; <-pace.C {
				if err := root.get(transport); err != nil && ctx.Err() == nil {
					t.Errorf("a request while certificates were replaced: %v", err)
					return
				}
			}
		})
	}
	issue(t, g.ca, "plane", "")
	other := authority.New(t, t.TempDir())
	text, err := os.ReadFile(other.File("ca.crt"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(g.ca.File("ca.crt"), text, 0o600))
	require.Eventually(t, func() bool { return g.presented().Cmp(before) != 0 }, 20*time.Second, 10*time.Millisecond)
	require.Eventually(t, func() bool { return byCertificate() != nil }, 20*time.Second, 10*time.Millisecond)
	leaving.Certificates, leaving.ClientSessionCache = []tls.Certificate{issue(t, other, "coming", "spiffe://edict.test/root")}, nil
	require.NoError(t, byCertificate(), "whom the new authority vouches for")
	cancel()
	load.Wait()

	require.NoError(t, root.http("POST", "/v1/projects/"+ours+"/policies",
		`{"slug":"web","selector":{"source":"role=web","destination":"role=none"},"rules":[{"action":"allow","protocol":"any","source_cidr":"10.0.0.0/8","destination_cidr":"10.1.0.0/16"}]}`))
	lines := bufio.NewScanner(stream.Body)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "event: policy_updated") {
	}
	require.NoError(t, lines.Err())
	require.Contains(t, lines.Text(), "policy_updated", "the stream that stood goes on")
	require.NoError(t, nc.FlushTimeout(10*time.Second), "and so does the connection to NATS")
	anew, err := n1.nats(nats.Name("anew"))
	require.NoError(t, err)
	state, err := anew.TLSConnectionState()
	require.NoError(t, err)
	require.NotZero(t, state.PeerCertificates[0].SerialNumber.Cmp(before))
}
