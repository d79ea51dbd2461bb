package access

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// issuer is an OpenID Connect issuer in this process.
type issuer struct {
	*httptest.Server
	key   *ecdsa.PrivateKey
	asked atomic.Int64 // for its keys
}

func newIssuer(t *testing.T) *issuer {
	i := &issuer{}
	var err error
	i.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/.well-known/openid-configuration":
			fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q,"authorization_endpoint":%q,"token_endpoint":%q,"id_token_signing_alg_values_supported":["ES256","HS256","none"]}`,
				i.URL, i.URL+"/keys", i.URL+"/a", i.URL+"/t")
		case "/keys":
			i.asked.Add(1)
			point, err := i.key.PublicKey.Bytes()
			if err != nil {
				panic(err)
			}
			fmt.Fprintf(w, `{"keys":[{"kty":"EC","crv":"P-256","kid":"k","alg":"ES256","use":"sig","x":%q,"y":%q}]}`, b64(point[1:33]), b64(point[33:]))
		}
	}))
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) sign(t *testing.T, key *ecdsa.PrivateKey, alg string, claims map[string]any) string {
	body, err := json.Marshal(claims)
	require.NoError(t, err)
	text := b64([]byte(`{"alg":"`+alg+`","kid":"k"}`)) + "." + b64(body)
	sum := sha256.Sum256([]byte(text))
	switch alg {
	case "none":
		return text + "."
	case "HS256":
		point, err := i.key.PublicKey.Bytes()
		require.NoError(t, err)
		mac := hmac.New(sha256.New, point)
		mac.Write([]byte(text))
		return text + "." + b64(mac.Sum(nil))
	}
	r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
	require.NoError(t, err)
	sig := make([]byte, 64)
	r.FillBytes(sig[:32])
	s.FillBytes(sig[32:])
	return text + "." + b64(sig)
}

func TestAnIssuersTokensAreBelievedForOneAudience(t *testing.T) {
	i := newIssuer(t)
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
		"good":                        {i.sign(t, i.key, "ES256", claims(nil)), true},
		"one of several audiences":    {i.sign(t, i.key, "ES256", claims(map[string]any{"aud": []string{"x", "edict"}})), true},
		"another audience":            {i.sign(t, i.key, "ES256", claims(map[string]any{"aud": "other"})), false},
		"over":                        {i.sign(t, i.key, "ES256", claims(map[string]any{"exp": time.Now().Add(-time.Minute).Unix()})), false},
		"another issuer":              {i.sign(t, i.key, "ES256", claims(map[string]any{"iss": "https://else.example"})), false},
		"a subject nobody registered": {i.sign(t, i.key, "ES256", claims(map[string]any{"sub": "4712"})), false},
		"another key":                 {i.sign(t, other, "ES256", claims(nil)), false},
		"no signature":                {i.sign(t, i.key, "none", claims(nil)), false},
		"the public key as a secret":  {i.sign(t, i.key, "HS256", claims(nil)), false},
		"changed afterwards":          {i.sign(t, i.key, "ES256", claims(nil)) + "A", false},
		"no token":                    {"a.b.c", false},
	} {
		p, err := r.Authenticate(t.Context(), Credentials{Bearer: row.token})
		require.Equal(t, row.good, err == nil, "%s: %v", name, err)
		if row.good {
			require.Equal(t, policy.PrincipalID("ana"), p.ID)
		}
	}
	g, let := r.Admit(streams.Credentials{Token: i.sign(t, i.key, "ES256", claims(map[string]any{"exp": 4102444800}))})
	require.False(t, let, "it may do nothing over NATS")
	require.Equal(t, int64(4102444800), g.Until.Unix(), "a connection ends with the token")
	_, err = NewIssuer(t.Context(), i.URL, "", client)
	require.ErrorContains(t, err, "audience")
	_, err = NewIssuer(context.Background(), i.URL+"/x", "edict", client)
	require.Error(t, err)
}

// Anybody can make tokens that name a key which the issuer does not have.
func TestForgedTokensDoNotHaveTheIssuerAskedEachTime(t *testing.T) {
	i := newIssuer(t)
	believer, err := NewIssuer(t.Context(), i.URL, "edict", i.Client())
	require.NoError(t, err)
	forger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	claims := map[string]any{"iss": i.URL, "aud": "edict", "sub": "4711", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()}
	good, forged := i.sign(t, i.key, "ES256", claims), i.sign(t, forger, "ES256", claims)
	began := time.Now()
	for range 1000 {
		_, _, err := believer.Verify(t.Context(), forged)
		require.Error(t, err)
	}
	require.LessOrEqual(t, i.asked.Load(), issuerBurst+int64(time.Since(began)/issuerEvery)+1)
	_, _, err = believer.Verify(t.Context(), good)
	require.NoError(t, err, "whose key is known is known")
}
