package access

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/issuer"
	"github.com/edictdev/edict/policy"
)

// signed is a token of an algorithm that the issuer does not have.
func signed(t *testing.T, i *issuer.Issuer, alg string, claims map[string]any) string {
	body, err := json.Marshal(claims)
	require.NoError(t, err)
	text := issuer.B64([]byte(`{"alg":"`+alg+`","kid":"k"}`)) + "." + issuer.B64(body)
	if alg == "none" {
		return text + "."
	}
	point, err := i.Key.PublicKey.Bytes()
	require.NoError(t, err)
	mac := hmac.New(sha256.New, point)
	mac.Write([]byte(text))
	return text + "." + issuer.B64(mac.Sum(nil))
}

func TestAnIssuersTokensAreBelievedForOneAudience(t *testing.T) {
	i := issuer.New(t)
	client := i.Client()
	believer, err := NewIssuer(t.Context(), i.URL, "edict", client)
	require.NoError(t, err)
	file := File{"ana": {Principal: policy.Principal{Kind: policy.Person, OIDC: []policy.OIDCIdentity{{Issuer: i.URL, Subject: "4711"}}}}}
	r := NewRegistry(silentModel{}, Options{File: file, Issuer: believer})
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	claims := func(change map[string]any) map[string]any {
		c := map[string]any{"iss": i.URL, "aud": "edict", "sub": "4711", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()}
		for k, v := range change {
			c[k] = v
		}
		return c
	}
	for name, row := range map[string]struct {
		token string
		good  bool
	}{
		"good":                        {i.Sign(i.Key, claims(nil)), true},
		"one of several audiences":    {i.Sign(i.Key, claims(map[string]any{"aud": []string{"x", "edict"}})), true},
		"another audience":            {i.Sign(i.Key, claims(map[string]any{"aud": "other"})), false},
		"over":                        {i.Sign(i.Key, claims(map[string]any{"exp": time.Now().Add(-time.Minute).Unix()})), false},
		"another issuer":              {i.Sign(i.Key, claims(map[string]any{"iss": "https://else.example"})), false},
		"a subject nobody registered": {i.Sign(i.Key, claims(map[string]any{"sub": "4712"})), false},
		"another key":                 {i.Sign(other, claims(nil)), false},
		"no signature":                {signed(t, i, "none", claims(nil)), false},
		"the public key as a secret":  {signed(t, i, "HS256", claims(nil)), false},
		"changed afterwards":          {i.Sign(i.Key, claims(nil)) + "A", false},
		"no token":                    {"a.b.c", false},
		"two subjects but for case":   {i.Sign(i.Key, claims(map[string]any{"sub": "4712", "ſub": "4711"})), false}, // ſ is an s to who folds case
		"the subject twice":           {i.Sign(i.Key, claims(map[string]any{"Sub": "4712"})), false},
		"claims of other names":       {i.Sign(i.Key, claims(map[string]any{"SUBJECT": "4712", "Email": "a@b"})), true},
	} {
		p, err := r.Authenticate(t.Context(), Credentials{Bearer: row.token})
		require.Equal(t, row.good, err == nil, "%s: %v", name, err)
		if row.good {
			require.Equal(t, policy.PrincipalID("ana"), p.ID)
		}
	}
	g, let := r.Admit(streams.Credentials{Token: i.Sign(i.Key, claims(map[string]any{"exp": 4102444800}))})
	require.False(t, let, "it may do nothing over NATS")
	require.Equal(t, int64(4102444800), g.Until.Unix(), "a connection ends with the token")
	_, err = NewIssuer(t.Context(), i.URL, "", client)
	require.ErrorContains(t, err, "audience")
	_, err = NewIssuer(context.Background(), i.URL+"/x", "edict", client)
	require.Error(t, err)
}

// Whatever lies where an issuer's configuration should be, a start that refuses it says so in one line.
func TestAnIssuerThatIsNoneIsNamedInOneLine(t *testing.T) {
	for name, page := range map[string]http.HandlerFunc{
		"no such page": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "<html>\n<body>\n"+strings.Repeat("not here ", 10_000), http.StatusNotFound)
		},
		"another page": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("<html>\r\n<body>\r\n" + strings.Repeat("welcome ", 10_000)))
		},
		"JSON of something else": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"status":"ok"}`))
		},
	} {
		s := httptest.NewServer(page)
		defer s.Close()
		_, err := NewIssuer(t.Context(), s.URL, "plane", s.Client())
		require.ErrorContains(t, err, "issuer "+s.URL+": ", name)
		require.ErrorContains(t, err, s.URL+"/.well-known/openid-configuration", name)
		require.NotContains(t, err.Error(), "\n", name)
		require.Less(t, len(err.Error()), 500, name)
		require.False(t, errors.As(err, new(*AwayError)), name)
	}
}

// An issuer is named as it names itself, to the last slash.
func TestAnIssuerIsNamedAsItNamesItself(t *testing.T) {
	i := issuer.New(t)
	_, err := NewIssuer(t.Context(), i.URL+"/", "edict", i.Client())
	require.EqualError(t, err, "issuer "+i.URL+"/: it calls itself \""+i.URL+"\", and so do its tokens: name it so")
}

// Anybody can make tokens that name a key which the issuer does not have.
func TestForgedTokensDoNotHaveTheIssuerAskedEachTime(t *testing.T) {
	i := issuer.New(t)
	believer, err := NewIssuer(t.Context(), i.URL, "edict", i.Client())
	require.NoError(t, err)
	forger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	claims := map[string]any{"iss": i.URL, "aud": "edict", "sub": "4711", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()}
	good, forged := i.Sign(i.Key, claims), i.Sign(forger, claims)
	began := time.Now()
	for range 1000 {
		_, _, err := believer.Verify(t.Context(), forged)
		require.Error(t, err)
	}
	require.LessOrEqual(t, i.Asked.Load(), issuerBurst+int64(time.Since(began)/issuerEvery)+1)
	_, _, err = believer.Verify(t.Context(), good)
	require.NoError(t, err, "whose key is known is known")
}
