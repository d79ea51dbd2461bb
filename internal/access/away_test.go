package access

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/issuer"
	"github.com/edictdev/edict/policy"
)

// An issuer that takes a connection, or begins an answer, and says nothing more is away, as one
// that nothing is heard of.
func TestAnIssuerThatSaysNothingIsAway(t *testing.T) {
	silent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/begun/") {
			_, _ = w.Write([]byte(`{"issuer":`))
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	}))
	defer silent.Close()
	for _, issuer := range []string{silent.URL, silent.URL + "/begun"} {
		_, err := NewIssuer(t.Context(), issuer, "plane", &http.Client{Timeout: 50 * time.Millisecond})
		require.ErrorAs(t, err, new(*AwayError), issuer)
		require.ErrorContains(t, err, "issuer "+issuer)
	}
}

// awayWhile is a way to an issuer that leads nowhere, or to a gateway without it, while how is set.
type awayWhile struct {
	next http.RoundTripper
	how  func(r *http.Request) (*http.Response, error) // nil: it leads there
}

func (w *awayWhile) RoundTrip(r *http.Request) (*http.Response, error) {
	if w.how != nil {
		return w.how(r)
	}
	return w.next.RoundTrip(r)
}

// Nobody knows whether a token is good whose issuer cannot be asked for its keys: that is no
// refusal, after which a client would throw it away.
func TestATokenIsNotRefusedWhileItsIssuerIsAway(t *testing.T) {
	for name, how := range map[string]func(r *http.Request) (*http.Response, error){
		"no way there": func(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") },
		"a gateway without it": func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusBadGateway, Status: "502 Bad Gateway", Body: http.NoBody, Request: r}, nil
		},
		"a gateway that knows no such page": func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusNotFound, Status: "404 Not Found", Body: io.NopCloser(strings.NewReader("default backend - 404")), Request: r}, nil
		},
		"a page in its place": func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("<h1>Back soon</h1>")), Request: r}, nil
		},
		"an answer of another kind": func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(`{"status":"maintenance"}`)), Request: r}, nil
		},
		"an answer that breaks off": func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF)), Request: r}, nil
		},
	} {
		i := issuer.New(t)
		way := &awayWhile{next: i.Client().Transport}
		believer, err := NewIssuer(t.Context(), i.URL, "edict", &http.Client{Transport: way})
		require.NoError(t, err, name)
		file := File{"ana": {Principal: policy.Principal{Kind: policy.Person, OIDC: []policy.OIDCIdentity{{Issuer: i.URL, Subject: "4711"}}}}}
		r := NewRegistry(silentModel{}, Options{File: file, Issuer: believer})
		claims := map[string]any{"iss": i.URL, "aud": "edict", "sub": "4711", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()}
		good := Credentials{Bearer: i.Sign(i.Key, claims)}
		way.how = how
		for range 2 * issuerBurst { // from some on it is not even asked
			_, err = r.Authenticate(t.Context(), good)
			require.ErrorAs(t, err, new(*AwayError), name)
			require.NotErrorIs(t, err, ErrUnknown, name)
		}
		_, err = r.Authenticate(t.Context(), Credentials{Bearer: "edt_nobody"})
		require.ErrorIs(t, err, ErrUnknown, "%s: it is no identity token", name)
		way.how = nil
		require.Eventually(t, func() bool {
			p, err := r.Authenticate(t.Context(), good)
			return err == nil && p.ID == "ana"
		}, 20*time.Second, 10*time.Millisecond, name)
	}
}

// Anybody can have the issuer be asked as often as it may. Whose key is new then is not refused
// for that.
func TestATokenIsNotRefusedBecauseForgedOnesCameBefore(t *testing.T) {
	i, after := issuer.New(t), issuer.New(t) // after has the keys that i has later
	way := &awayWhile{next: i.Client().Transport}
	believer, err := NewIssuer(t.Context(), i.URL, "edict", &http.Client{Transport: way})
	require.NoError(t, err)
	file := File{"ana": {Principal: policy.Principal{Kind: policy.Person, OIDC: []policy.OIDCIdentity{{Issuer: i.URL, Subject: "4711"}}}}}
	r := NewRegistry(silentModel{}, Options{File: file, Issuer: believer})
	claims := map[string]any{"iss": i.URL, "aud": "edict", "sub": "4711", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()}
	early := Credentials{Bearer: after.Sign(after.Key, claims)}
	for errors.Is(err, ErrUnknown) || err == nil {
		_, err = r.Authenticate(t.Context(), early)
		require.Error(t, err)
	}
	require.ErrorIs(t, err, ErrAskedEnough)
	way.how = func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		r.URL.Host = strings.TrimPrefix(after.URL, "http://")
		return way.next.RoundTrip(r)
	}
	require.Eventually(t, func() bool {
		p, err := r.Authenticate(t.Context(), early)
		require.NotErrorIs(t, err, ErrUnknown)
		return err == nil && p.ID == "ana"
	}, 20*time.Second, 10*time.Millisecond)
}

// Keys that were had are kept while the issuer answers with something else: whose token names one
// of them is believed all the while.
func TestKeysAreKeptWhileSomethingElseIsAnswered(t *testing.T) {
	i := issuer.New(t)
	way := &awayWhile{next: i.Client().Transport}
	believer, err := NewIssuer(t.Context(), i.URL, "edict", &http.Client{Transport: way})
	require.NoError(t, err)
	claims := map[string]any{"iss": i.URL, "aud": "edict", "sub": "4711", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()}
	good, forged := i.Sign(i.Key, claims), i.Sign(issuer.New(t).Key, claims)
	_, _, err = believer.Verify(t.Context(), good)
	require.NoError(t, err)
	way.how = func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("{}")), Request: r}, nil
	}
	require.Eventually(t, func() bool { // one question serves all who ask: at first it may be the one before
		_, _, err := believer.Verify(t.Context(), forged)
		require.Error(t, err)
		require.NotErrorIs(t, err, ErrAskedEnough)
		return errors.As(err, new(*AwayError))
	}, 20*time.Second, time.Millisecond)
	_, _, err = believer.Verify(t.Context(), good)
	require.NoError(t, err)
}

// Whose keys were never asked for believes nobody, and refuses nobody.
func TestALateIssuerRefusesNobody(t *testing.T) {
	r := NewRegistry(silentModel{}, Options{Issuer: &LateIssuer{}})
	_, err := r.Authenticate(t.Context(), Credentials{Bearer: "a.b.c"})
	require.ErrorAs(t, err, new(*AwayError))
}
