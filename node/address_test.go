package node

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/policy"
)

// TestAnAddressThatIsNoneIsRefused: to try it again is of no use, and without a log nobody would
// hear of it.
func TestAnAddressThatIsNoneIsRefused(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, server := range []string{
		"127.0.0.1:8080", "localhost:8080", "plane.example", "http://", "ftp://127.0.0.1", "nats://127.0.0.1:4222",
		"http://a b", "http://127.0.0.1:99999", "http://joe:secret@127.0.0.1:x", "joe:secret@127.0.0.1:8080",
	} {
		f := NewFollower(server, self, Options{})
		err := f.Run(ctx, func(Event) error { return nil })
		require.ErrorAs(t, err, new(*AddressError), server)
		require.ErrorContains(t, err, "is not the address of a server; it is one such as http://127.0.0.1:8080")
		require.NotContains(t, err.Error(), "secret")
		require.ErrorAs(t, f.StreamError(), new(*AddressError), server)
		require.ErrorAs(t, FollowArtifacts(ctx, server, self, Options{}, func(Artifacts) error { return nil }), new(*AddressError), server)
		require.ErrorAs(t, NewReporter(server, self, ReporterOptions{}).Run(ctx), new(*AddressError), server)
	}
	require.ErrorAs(t, NewFollower("", self, Options{Trust: artifact.NewTrustSet()}).Run(ctx, func(Event) error { return nil }), new(*AddressError))
	for _, server := range []string{"http://127.0.0.1:8080", "https://plane.example/below/", "http://[::1]:80", "http://:8080", "http://joe:secret@127.0.0.1"} {
		require.NoError(t, checkAddress(server, false))
	}
}

// TestANATSAddressThatIsNoneIsRefused, also by a port that none can have.
func TestANATSAddressThatIsNoneIsRefused(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, server := range []string{"nats://joe:secret@127.0.0.1:99999", "nats://127.0.0.1:1, joe:secret@127.0.0.1:99999", "nats://joe:secret@127.0.0.1:x"} {
		err := NewFollower("", self, Options{NATS: server, Trust: artifact.NewTrustSet()}).Run(ctx, func(Event) error { return nil })
		require.ErrorAs(t, err, new(*AddressError), server)
		require.ErrorContains(t, err, "is not the address of a server; it is one such as nats://127.0.0.1:4222")
		require.NotContains(t, err.Error(), "secret")
	}
	for _, server := range []string{"127.0.0.1", "nats://127.0.0.1:4222,tls://plane.example", "nats://[::1]:65535"} {
		require.NoError(t, checkPorts(server), server)
	}
}

// TestAClientMayKnowOtherSchemes, such as one for a Unix socket.
func TestAClientMayKnowOtherSchemes(t *testing.T) {
	p, plane := newPlane(t)
	p.add(msg{5, web, rulesA})
	known := strings.NewReplacer("pipe://plane", plane)
	var reported atomic.Bool
	pipes := new(http.Transport)
	defer pipes.CloseIdleConnections()
	pipes.RegisterProtocol("pipe", roundTrip(func(r *http.Request) (*http.Response, error) {
		there, err := url.Parse(known.Replace(r.URL.String()))
		if err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.URL, r.Host = there, there.Host
		reported.Store(reported.Load() || r.Method == http.MethodPost)
		return pipes.RoundTrip(r)
	}))
	hc := &http.Client{Transport: pipes}
	opt := hasty(0)
	opt.HTTP = hc
	require.Equal(t, []policy.EventID{5}, ids(follow(t, NewFollower("pipe://plane", self, opt), 1)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := NewReporter("pipe://plane", self, ReporterOptions{HTTP: hc})
	r.Send(policy.Report{Event: 5})
	require.NoError(t, r.Run(ctx))
	require.True(t, reported.Load())
	for _, server := range []string{"localhost:8080", "plane.example", "http://", "://plane"} {
		require.ErrorAs(t, NewFollower(server, self, opt).Run(t.Context(), func(Event) error { return nil }), new(*AddressError), server)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestWhatHasNoKeysIsAskedAgain: what stands in a plane's place for a moment, such as a portal, must not
// leave the follower without keys for good.
func TestWhatHasNoKeysIsAskedAgain(t *testing.T) {
	p, url := newPlane(t)
	var asked atomic.Int64
	portal := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/keys" && asked.Add(1) < 3 {
			_, _ = w.Write([]byte("{}"))
			return
		}
		http.Redirect(w, r, url+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer portal.Close()
	p.add(msg{5, web, rulesA})
	require.Equal(t, []policy.EventID{5}, ids(follow(t, NewFollower(portal.URL, self, hasty(0)), 1)))
}

// TestWhoWasGivenNoKeysStartsAgain: nobody can give it any.
func TestWhoWasGivenNoKeysStartsAgain(t *testing.T) {
	p, url := newPlane(t)
	other, err := artifact.GenerateSigner()
	require.NoError(t, err)
	f := NewFollower(url, self, hasty(0))
	require.NoError(t, f.prepare(t.Context()))
	p.signer = other
	p.add(msg{5, web, rulesA})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err = f.Run(ctx, func(Event) error { return nil })
	require.ErrorAs(t, err, new(*UntrustedKeyError))
	require.ErrorContains(t, err, "start what follows the node again")
}
