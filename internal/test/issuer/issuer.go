// Package issuer is an OpenID Connect issuer for tests: it has keys, signs what it is
// told to, and lets a browser sign in by the authorization code flow.
package issuer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Issuer is one in this process. Its fields are set before anybody asks it.
type Issuer struct {
	*httptest.Server
	Key      *ecdsa.PrivateKey
	Asked    atomic.Int64 // for its keys
	ClientID string       // id of the client that may use the code flow
	Secret   string       // of that client; empty: it is a public one
	// Subject is who signs in, in the browser that comes.
	Subject string
	// Claims stand in a code flow's identity token in place of what would.
	Claims map[string]any

	mu    sync.Mutex
	codes map[string]url.Values // what each code was asked for with
}

// New starts an issuer that ends with the test.
func New(t testing.TB) *Issuer {
	t.Helper()
	i := &Issuer{ClientID: "edict", Subject: "4711", codes: map[string]url.Values{}}
	var err error
	i.Key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", i.configuration)
	mux.HandleFunc("GET /keys", i.keys)
	mux.HandleFunc("GET /authorize", i.form)
	mux.HandleFunc("POST /authorize", i.authorize)
	mux.HandleFunc("POST /token", i.token)
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	return i
}

// ByName has the issuer be found at localhost, which for a browser is another site than
// 127.0.0.1.
func (i *Issuer) ByName() *Issuer {
	i.URL = strings.Replace(i.URL, "127.0.0.1", "localhost", 1)
	return i
}

func (i *Issuer) configuration(w http.ResponseWriter, _ *http.Request) {
	answer(w, map[string]any{
		"issuer": i.URL, "jwks_uri": i.URL + "/keys", "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token",
		"id_token_signing_alg_values_supported": []string{"ES256", "HS256", "none"}, "code_challenge_methods_supported": []string{"S256"},
	})
}

func (i *Issuer) keys(w http.ResponseWriter, _ *http.Request) {
	i.Asked.Add(1)
	point, err := i.Key.PublicKey.Bytes()
	if err != nil {
		panic(err)
	}
	answer(w, map[string]any{"keys": []any{map[string]any{"kty": "EC", "crv": "P-256", "kid": "k", "alg": "ES256", "use": "sig", "x": B64(point[1:33]), "y": B64(point[33:])}}})
}

// form is what somebody sees who is to sign in.
func (i *Issuer) form(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("client_id") != i.ClientID || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || !strings.Contains(q.Get("scope"), "openid") {
		http.Error(w, "this is no such client", http.StatusBadRequest)
		return
	}
	fmt.Fprintf(w, `<!doctype html><title>Issuer</title><form method="post" action="/authorize?%s"><button name="as" value="%s">Sign in</button> <button name="as" value="">Cancel</button></form>`,
		html.EscapeString(r.URL.RawQuery), html.EscapeString(i.Subject))
}

// authorize sends the browser back with a code, or with what became of it.
func (i *Issuer) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	back := url.Values{"state": {q.Get("state")}, "iss": {i.URL}, "session_state": {"of the issuer's own"}}
	if r.FormValue("as") == "" {
		back.Set("error", "access_denied")
	} else {
		code := rand.Text()
		i.mu.Lock()
		i.codes[code] = q
		i.mu.Unlock()
		back.Set("code", code)
	}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusSeeOther)
}

// token takes a code once, from who has the verifier of its challenge.
func (i *Issuer) token(w http.ResponseWriter, r *http.Request) {
	id, secret, basic := r.BasicAuth()
	if basic { // a form's spelling of it, RFC 6749
		id, _ = url.QueryUnescape(id)
		secret, _ = url.QueryUnescape(secret)
	} else {
		id, secret = r.FormValue("client_id"), r.FormValue("client_secret")
	}
	if id != i.ClientID || secret != i.Secret {
		w.WriteHeader(http.StatusUnauthorized)
		answer(w, map[string]any{"error": "invalid_client"})
		return
	}
	i.mu.Lock()
	q, known := i.codes[r.FormValue("code")]
	delete(i.codes, r.FormValue("code"))
	i.mu.Unlock()
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	if !known || B64(sum[:]) != q.Get("code_challenge") || r.FormValue("redirect_uri") != q.Get("redirect_uri") {
		w.WriteHeader(http.StatusBadRequest)
		answer(w, map[string]any{"error": "invalid_grant"})
		return
	}
	claims := map[string]any{
		"iss": i.URL, "aud": i.ClientID, "sub": i.Subject, "nonce": q.Get("nonce"), "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}
	maps.Copy(claims, i.Claims)
	answer(w, map[string]any{"access_token": "none", "token_type": "Bearer", "id_token": i.Sign(i.Key, claims)})
}

// Sign is a token of these claims, signed with a key.
func (i *Issuer) Sign(key *ecdsa.PrivateKey, claims map[string]any) string {
	body, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	text := B64([]byte(`{"alg":"ES256","kid":"k"}`)) + "." + B64(body)
	sum := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
	if err != nil {
		panic(err)
	}
	sig := make([]byte, 64)
	r.FillBytes(sig[:32])
	s.FillBytes(sig[32:])
	return text + "." + B64(sig)
}

// B64 is how tokens spell bytes.
func B64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func answer(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // the client may be gone
}
