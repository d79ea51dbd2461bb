package listener

import (
	"context"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/datadir"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/test/issuer"
	"github.com/edictdev/edict/policy"
)

// quiet is a read model without principals.
type quiet struct{}

func (quiet) AccessVersion() uint64      { return 0 }
func (quiet) Read(func(*projector.View)) {}

// A plane starts while the issuer is away, believes it once it answers, and has people sign in
// there.
func TestAPlaneStartsWhileItsIssuerIsAway(t *testing.T) {
	i := issuer.New(t)
	var there atomic.Bool
	serve := i.Config.Handler
	i.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !there.Load() {
			http.Error(w, "the gateway has nobody behind it", http.StatusBadGateway)
			return
		}
		serve.ServeHTTP(w, r)
	})
	file := filepath.Join(t.TempDir(), "access.json")
	ana := policy.Principal{Kind: policy.Person, OIDC: []policy.OIDCIdentity{{Issuer: i.URL, Subject: "4711"}}}
	require.NoError(t, access.File{"ana": {Principal: ana}}.Write(file))
	open := func(opt Options) (*Auth, *access.Registry, error) {
		opt.File, opt.Audience = file, i.ClientID
		a, err := Load(t.Context(), opt, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		r, err := a.Open(t.Context(), quiet{}, nil, nil, nil)
		return a, r, err
	}
	a, r, err := open(Options{Issuer: i.URL})
	require.NoError(t, err)
	token := i.Sign(i.Key, map[string]any{"iss": i.URL, "aud": i.ClientID, "sub": "4711", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()})
	knows := func() bool {
		_, err := r.Authenticate(t.Context(), access.Credentials{Bearer: token})
		return err == nil
	}
	require.False(t, knows())
	require.Nil(t, a.SignIn())
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	there.Store(true)
	require.NoError(t, <-ended)
	require.True(t, knows())
	require.Equal(t, i.URL, a.SignIn().Issuer())

	// What no later try finds is said at once, also while the issuer is away.
	there.Store(false)
	for flag, opt := range map[string]Options{
		"--oidc-issuer":        {Issuer: "id.example.com"},
		"--oidc-client-secret": {Issuer: i.URL, Secret: filepath.Join(t.TempDir(), "none")},
		"--console-url":        {Issuer: i.URL, Console: "plane.example"},
	} {
		_, _, err := open(opt)
		var unusable *datadir.UnusableError
		require.ErrorAs(t, err, &unusable, flag)
		require.Equal(t, flag, unusable.What)
	}
	there.Store(true)
	_, _, err = open(Options{Issuer: i.URL + "/other"})
	require.ErrorAs(t, err, new(*datadir.UnusableError), "which is no issuer")
}
