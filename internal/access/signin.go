package access

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/time/rate"
)

// SignInLife is how long somebody may take to sign in at the issuer.
const SignInLife = 10 * time.Minute

// The issuer is asked for tokens so often, and no more: whoever begins to sign in can
// come back with a code that is none.
const (
	exchangesPerSecond = 20
	exchangeBurst      = 40
)

// Errors of people who come back from the issuer.
var (
	ErrSignInOver   = errors.New("the sign-in was begun too long ago, or in another browser")
	ErrOtherIssuer  = errors.New("another issuer answered than was asked")
	ErrNoIdentity   = errors.New("the issuer gave no identity token")
	ErrNotThisOne   = errors.New("the identity token is of another sign-in")
	ErrNoSignIn     = errors.New("the issuer names no authorization_endpoint and no token_endpoint")
	errOutsideOfWeb = errors.New("want a URL that begins with https:// or http:// and has no query")
)

// SignIn has people sign in at an issuer with a browser, by the authorization code flow
// with PKCE. The plane is the client whose id is the audience, so what it gets is an
// identity token as others show it. It keeps nothing of those who are on their way: the
// browser does (Attempt).
type SignIn struct {
	issuer *OIDC
	name   string // the issuer's URL
	oauth  oauth2.Config
	client *http.Client
	home   string // where browsers find the plane; empty: where each looked for it
}

// Attempt is what a browser keeps, sealed, while its user is at the issuer.
type Attempt struct {
	State    string    `json:"state"`
	Nonce    string    `json:"nonce"`
	Verifier string    `json:"verifier"`
	View     string    `json:"view"` // of the console, to go on with
	Until    time.Time `json:"until"`
}

// SignIn offers the code flow of an issuer. secret is the client's, empty of a public
// one. home is where browsers find the plane, empty: where each of them looked for it.
func (o *OIDC) SignIn(secret, home string) (*SignIn, error) {
	if o.endpoint.AuthURL == "" || o.endpoint.TokenURL == "" {
		return nil, ErrNoSignIn
	}
	if err := CheckHome(home); err != nil {
		return nil, err
	}
	client := *o.client
	client.Transport = &seldom{next: o.transport, limit: rate.NewLimiter(exchangesPerSecond, exchangeBurst)}
	return &SignIn{
		issuer: o, name: o.issuer, client: &client, home: strings.TrimRight(home, "/"),
		oauth: oauth2.Config{ClientID: o.audience, ClientSecret: secret, Endpoint: o.endpoint, Scopes: []string{oidc.ScopeOpenID}},
	}, nil
}

// CheckHome says what is wrong with the URL by which browsers find the plane. Empty is
// good: it is where each looked for it.
func CheckHome(home string) error {
	if home == "" {
		return nil
	}
	u, err := url.Parse(home)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%q: %w", home, errOutsideOfWeb)
	}
	return nil
}

// Issuer is the URL of where people sign in.
func (s *SignIn) Issuer() string { return s.name }

// Home is the plane's address for a browser that found it at another.
func (s *SignIn) Home(asked string) string {
	if s.home != "" {
		return s.home
	}
	return asked
}

// Begin is where a browser is to go, and what it is to keep meanwhile. back is where the
// issuer sends it to.
func (s *SignIn) Begin(back, view string, now time.Time) (to string, kept Attempt) {
	kept = Attempt{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), View: view, Until: now.Add(SignInLife)}
	oauth := s.oauth
	oauth.RedirectURL = back
	return oauth.AuthCodeURL(kept.State, oidc.Nonce(kept.Nonce), oauth2.S256ChallengeOption(kept.Verifier)), kept
}

// Return is what an issuer sends a browser back with.
type Return struct{ Code, State, Issuer string }

// Finish is the identity token of who comes back, and until when it is believed. kept is
// what the browser was given for the way.
func (s *SignIn) Finish(ctx context.Context, kept Attempt, r Return, back string) (token string, until time.Time, err error) {
	if subtle.ConstantTimeCompare([]byte(kept.State), []byte(r.State)) != 1 {
		return "", until, ErrSignInOver
	}
	if r.Issuer != "" && r.Issuer != s.name {
		return "", until, ErrOtherIssuer
	}
	oauth := s.oauth
	oauth.RedirectURL = back
	ctx = oidc.ClientContext(ctx, s.client)
	given, err := oauth.Exchange(ctx, r.Code, oauth2.VerifierOption(kept.Verifier))
	if err != nil {
		return "", until, fmt.Errorf("exchange the code: %w", err)
	}
	token, _ = given.Extra("id_token").(string)
	if token == "" {
		return "", until, ErrNoIdentity
	}
	t, err := s.issuer.verify(ctx, token)
	if err != nil {
		return "", until, fmt.Errorf("the identity token: %w", err)
	}
	if subtle.ConstantTimeCompare([]byte(kept.Nonce), []byte(t.Nonce)) != 1 {
		return "", until, ErrNotThisOne
	}
	return token, t.Expiry, nil
}
