package node

import (
	"context"
	"net/http"
	"net/http/httptest"
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
		require.NoError(t, checkAddress(server))
	}
}

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
