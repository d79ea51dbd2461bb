package access

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/time/rate"

	"github.com/edictdev/edict/policy"
)

// algorithms that an issuer may sign with: those with a public key, so that
// nothing a client can know signs a token.
var algorithms = []string{oidc.RS256, oidc.ES256, oidc.ES384, oidc.EdDSA, oidc.PS256}

// issuerPatience bounds a question to the issuer.
const issuerPatience = 10 * time.Second

// An issuer is asked for its keys so often, and no more: a token that names a key
// nobody knows has them asked for, and anybody can make such tokens.
const (
	issuerEvery = time.Second
	issuerBurst = 5
)

// issuerAnswer bounds an answer of an issuer, in bytes.
const issuerAnswer = 4 << 20

// ErrAskedEnough is what an *AwayError wraps of an issuer that is there and was asked for its keys
// as often as it is to be.
var ErrAskedEnough = errors.New("the issuer was asked for its keys a moment ago")

// seldom lets a few requests pass, and notes whether the issuer could be asked: no error that an
// http.Client returns wraps that it gave up waiting.
type seldom struct {
	next  http.RoundTripper
	limit *rate.Limiter
	away  atomic.Bool // the last request that passed got no whole answer
}

// RoundTrip implements http.RoundTripper.
func (s *seldom) RoundTrip(r *http.Request) (*http.Response, error) {
	if !s.limit.Allow() {
		return nil, ErrAskedEnough
	}
	res, err := s.ask(r)
	s.away.Store(err != nil)
	return res, err
}

// ask has the whole answer: what breaks off later is not seen here.
func (s *seldom) ask(r *http.Request) (*http.Response, error) {
	res, err := s.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if res.StatusCode >= http.StatusInternalServerError || res.StatusCode == http.StatusTooManyRequests {
		return nil, errors.Join(fmt.Errorf("it answers %s", res.Status), res.Body.Close())
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, issuerAnswer))
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res, nil
}

// keysAnswered has an answer of other JSON than keys fail: the verifier would take it for none at
// all, and forget those that it has.
type keysAnswered struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (k keysAnswered) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := k.next.RoundTrip(r)
	if err != nil || res.StatusCode != http.StatusOK {
		return res, err
	}
	body, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return nil, err
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if json.Unmarshal(body, &set) == nil && set.Keys == nil {
		return nil, errors.New("it answers without keys")
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res, nil
}

// AwayError means that an issuer could not be asked now: it, or the way to it, is away.
type AwayError struct{ Err error }

// Error says why.
func (e *AwayError) Error() string { return e.Err.Error() }

// Unwrap is what was found.
func (e *AwayError) Unwrap() error { return e.Err }

// issuerKeys are an issuer's, by which tokens are verified. It notes in a failedAway of the
// context that they could not be had: the verifier's own error does not wrap it.
type issuerKeys struct{ oidc.KeySet }

type failedAway struct{ err *AwayError }

type failedAwayKey struct{}

// VerifySignature implements oidc.KeySet.
func (k issuerKeys) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	payload, err := k.KeySet.VerifySignature(ctx, token)
	// What it wraps is why it has no newer keys, be it an answer that is none. That no key of the
	// newest ones made the signature wraps nothing.
	if f, ok := ctx.Value(failedAwayKey{}).(*failedAway); ok && errors.Unwrap(err) != nil {
		f.err = &AwayError{err}
	}
	return payload, err
}

// OIDC believes the identity tokens of one issuer for one audience.
type OIDC struct {
	verifier  *oidc.IDTokenVerifier
	client    *http.Client
	transport http.RoundTripper // of client, asked as often as one likes
	endpoint  oauth2.Endpoint   // where people sign in

	issuer, audience string
}

// NewIssuer asks the issuer where its keys are. Its tokens must name it, the
// audience, and a time that is not over. client nil: one with a timeout. The error is an
// *AwayError where a later try may find it.
func NewIssuer(ctx context.Context, issuer, audience string, client *http.Client) (*OIDC, error) {
	if audience == "" {
		return nil, errors.New("an audience must be given (--oidc-audience): tokens for others are not for this plane")
	}
	if u, err := url.Parse(issuer); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return nil, fmt.Errorf("issuer %q: want its URL, such as https://id.example.com", issuer)
	}
	if client == nil {
		client = &http.Client{Timeout: issuerPatience}
	}
	careful := *client
	if careful.Transport == nil {
		careful.Transport = http.DefaultTransport
	}
	transport := careful.Transport
	from := &seldom{next: transport, limit: rate.NewLimiter(rate.Every(issuerEvery), issuerBurst)}
	careful.Transport = from
	client = &careful
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, client), issuer)
	if err != nil && from.away.Load() {
		return nil, fmt.Errorf("issuer %s: %w", issuer, &AwayError{err})
	}
	if other, ok := errors.AsType[*oidc.IssuerMismatchError](err); ok && other.Discovered != "" {
		return nil, fmt.Errorf("issuer %s: it calls itself %.300q, and so do its tokens: name it so", issuer, other.Discovered)
	}
	if err != nil {
		// It may quote a whole page.
		what, _, _ := strings.Cut(strings.ToValidUTF8(fmt.Sprintf("%.300s", err), ""), "\n")
		return nil, fmt.Errorf("issuer %s: %s; its configuration should be at %s/.well-known/openid-configuration", issuer, strings.TrimSpace(what), strings.TrimSuffix(issuer, "/"))
	}
	var at struct {
		Keys string `json:"jwks_uri"`
	}
	if err := provider.Claims(&at); err != nil {
		return nil, fmt.Errorf("issuer %s: %w", issuer, err)
	}
	asked := *client
	asked.Transport = keysAnswered{from}
	keys := issuerKeys{oidc.NewRemoteKeySet(oidc.ClientContext(context.WithoutCancel(ctx), &asked), at.Keys)}
	return &OIDC{
		verifier: oidc.NewVerifier(issuer, keys, &oidc.Config{ClientID: audience, SupportedSigningAlgs: algorithms}),
		client:   client, transport: transport, endpoint: provider.Endpoint(), issuer: issuer, audience: audience,
	}, nil
}

// Verify implements Issuer. The error is an *AwayError where the issuer's keys are not known
// and cannot be asked for now.
func (o *OIDC) Verify(ctx context.Context, token string) (who policy.OIDCIdentity, until time.Time, err error) {
	t, err := o.verify(ctx, token)
	if err != nil {
		return who, until, err
	}
	return policy.OIDCIdentity{Issuer: t.Issuer, Subject: t.Subject}, t.Expiry, nil
}

// believed are the claims that decide whose a token is, and until when.
var believed = [...]string{"iss", "sub", "aud", "exp", "nbf", "iat", "nonce"}

var errOtherCase = errors.New("a claim of the identity token differs from one of OpenID Connect in case alone; have the issuer call it otherwise")

// verify is Verify of a token that is believed as it is written. The verifier reads SUB as sub,
// which are two claims (RFC 7519, section 4): an issuer may let people choose what SUB says.
func (o *OIDC) verify(ctx context.Context, token string) (*oidc.IDToken, error) {
	var failed failedAway
	t, err := o.verifier.Verify(context.WithValue(oidc.ClientContext(ctx, o.client), failedAwayKey{}, &failed), token)
	if failed.err != nil {
		return nil, failed.err
	}
	if err != nil {
		return nil, err
	}
	var claims map[string]json.RawMessage
	if err := t.Claims(&claims); err != nil {
		return nil, err
	}
	for name := range claims {
		for _, b := range believed {
			if name != b && strings.EqualFold(name, b) {
				return nil, fmt.Errorf("%q: %w", name, errOtherCase)
			}
		}
	}
	return t, nil
}
