package api_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/test/issuer"
	"github.com/edictdev/edict/policy"
)

// signedIn is a plane whose console people sign in to at an issuer, where ana is known.
type signedIn struct {
	*plane
	t      *testing.T
	issuer *issuer.Issuer
	now    time.Time
}

func newSignedIn(t *testing.T, secret string, set ...func(*api.Deps)) *signedIn {
	t.Helper()
	s := &signedIn{t: t, issuer: issuer.New(t), now: time.Now()}
	s.issuer.Secret = secret
	believed, err := access.NewIssuer(t.Context(), s.issuer.URL, s.issuer.ClientID, s.issuer.Client())
	require.NoError(t, err)
	reads, err := policy.ParseRelation("plane#read")
	require.NoError(t, err)
	who := policy.Principal{Kind: policy.Person, OIDC: []policy.OIDCIdentity{{Issuer: s.issuer.URL, Subject: "4711"}}}
	file := access.File{"ana": {Principal: who, Relations: []policy.Relation{reads}}}
	s.plane = newPlane(t, append([]func(*api.Deps){withSessions(t, &s.now), func(d *api.Deps) {
		d.Access = access.NewRegistry(d.Model.(access.Model), access.Options{File: file, Issuer: believed})
		d.Clock = func() time.Time { return s.now }
		at, err := believed.SignIn(secret, "")
		require.NoError(t, err)
		d.SignIn = func() *access.SignIn { return at }
	}}, set...)...)
	return s
}

// begun is where a browser is sent that wants to sign in, and what it keeps.
func (s *signedIn) begun(view string) (to *url.URL, kept *http.Cookie) {
	s.t.Helper()
	a := s.do("GET", "/v1/session/sign-in?view="+url.QueryEscape(view), "")
	require.Equal(s.t, http.StatusSeeOther, a.StatusCode, "%s", a.body)
	to, err := url.Parse(a.Header.Get("Location"))
	require.NoError(s.t, err)
	kept, err = http.ParseSetCookie(a.Header.Get("Set-Cookie"))
	require.NoError(s.t, err)
	return to, kept
}

// allowed is with what the issuer sends a browser back whose user agreed, or did not.
func (s *signedIn) allowed(to *url.URL, as string) url.Values {
	s.t.Helper()
	client := *s.issuer.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, to.String(), strings.NewReader("as="+as))
	require.NoError(s.t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := client.Do(req)
	require.NoError(s.t, err)
	require.NoError(s.t, res.Body.Close())
	back, err := res.Location()
	require.NoError(s.t, err)
	require.Equal(s.t, "/v1/session/callback", back.Path)
	return back.Query()
}

// returned is where a browser goes on that came back, and its session, if it has one.
func (s *signedIn) returned(q url.Values, cookies ...string) (to string, session *http.Cookie) {
	s.t.Helper()
	header := []string{"Sec-Fetch-Site: cross-site"}
	for _, c := range cookies {
		if c != "" {
			header = append(header, c)
		}
	}
	a := s.do("GET", "/v1/session/callback?"+q.Encode(), "", header...)
	require.Equal(s.t, http.StatusSeeOther, a.StatusCode, "%s", a.body)
	for _, line := range a.Header.Values("Set-Cookie") {
		c, err := http.ParseSetCookie(line)
		require.NoError(s.t, err)
		if c.MaxAge >= 0 && c.Value != "" {
			session = c
		}
	}
	return a.Header.Get("Location"), session
}

func TestWhoSignsInAtTheIssuerHasASession(t *testing.T) {
	for _, secret := range []string{"", "of the client"} {
		s := newSignedIn(t, secret)
		require.Equal(t, resource.SignIn{Issuer: s.issuer.URL, Path: "/v1/session/sign-in"}, into[resource.SignIn](t, s.do("GET", "/v1/session", "")))
		to, kept := s.begun("/ui/nodes?labels=env%3Dprod")
		require.True(t, kept.HttpOnly)
		require.Equal(t, http.SameSiteLaxMode, kept.SameSite, "it comes back from another site")
		require.Equal(t, "/v1/session/callback", kept.Path)
		require.Equal(t, 600, kept.MaxAge)
		for _, name := range []string{"state", "nonce", "code_challenge"} {
			require.NotEmpty(t, to.Query().Get(name))
			require.NotContains(t, kept.Value, to.Query().Get(name), "what is kept is sealed")
		}

		view, session := s.returned(s.allowed(to, "4711"), shown(kept))
		require.Equal(t, "/ui/nodes?labels=env%3Dprod", view)
		require.NotNil(t, session)
		require.True(t, session.HttpOnly)
		require.Equal(t, http.SameSiteStrictMode, session.SameSite)
		require.Equal(t, "ana", into[resource.Self](t, s.do("GET", "/v1/access/self", "", shown(session))).ID)
		s.want(403, "forbidden", s.do("POST", "/v1/snapshots", "", shown(session)))
		require.WithinDuration(t, s.now.Add(time.Hour), session.Expires, 5*time.Second, "the session ends with the identity token")
		s.want(401, "unauthenticated", s.do("GET", "/v1/access/self", "", "Cookie: "+session.Name+"="+kept.Value))
	}
}

func TestASignInThatIsNotTheBrowsersOwnOpensNothing(t *testing.T) {
	s := newSignedIn(t, "")
	to, kept := s.begun("/ui/fleet")
	_, others := s.begun("/ui/fleet")
	good := s.allowed(to, "4711")
	with := func(name, value string) url.Values {
		q := s.allowed(to, "4711")
		q.Set(name, value)
		return q
	}
	for name, c := range map[string]struct {
		q      url.Values
		cookie string
		why    string
	}{
		"no cookie":                   {good, "", "over"},
		"another browser's":           {s.allowed(to, "4711"), shown(others), "over"},
		"another state":               {with("state", "x"), shown(kept), "over"},
		"no state":                    {with("state", ""), shown(kept), "over"},
		"another issuer":              {with("iss", "https://else.example"), shown(kept), "failed"},
		"a code of nobody":            {with("code", "x"), shown(kept), "failed"},
		"something else in its place": {good, "Cookie: " + kept.Name + "=" + strings.Repeat("A", 80), "over"},
		"who did not agree":           {s.allowed(to, ""), shown(kept), "denied"},
	} {
		view, session := s.returned(c.q, c.cookie)
		require.Nil(t, session, name)
		require.Equal(t, "/ui/#sign_in="+c.why, view, name)
	}
	_, session := s.returned(good, shown(kept))
	require.NotNil(t, session, "the one that is good, at last")
	_, session = s.returned(good, shown(kept))
	require.Nil(t, session, "its code was used")
	late, kept := s.begun("")
	s.now = s.now.Add(access.SignInLife)
	view, session := s.returned(s.allowed(late, "4711"), shown(kept))
	require.Nil(t, session)
	require.Equal(t, "/ui/#sign_in=over", view)
}

func TestATokenThatIsOfAnotherSignInOpensNothing(t *testing.T) {
	for name, c := range map[string]struct {
		claims map[string]any
		why    string
	}{
		"another nonce":           {map[string]any{"nonce": "x"}, "failed"},
		"no nonce":                {map[string]any{"nonce": ""}, "failed"},
		"another client's":        {map[string]any{"aud": "other"}, "failed"},
		"over":                    {map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}, "failed"},
		"a subject nobody has":    {map[string]any{"sub": "4712"}, "unknown"},
		"too long for a cookie":   {map[string]any{"groups": strings.Repeat("g", 4000)}, "too_long"},
		"as it should be, for it": {nil, ""},
	} {
		s := newSignedIn(t, "")
		s.issuer.Claims = c.claims
		to, kept := s.begun("")
		view, session := s.returned(s.allowed(to, "4711"), shown(kept))
		if c.why == "" {
			require.NotNil(t, session, name)
			require.Equal(t, "/ui/", view)
			continue
		}
		require.Nil(t, session, name)
		require.Equal(t, "/ui/#sign_in="+c.why, view, name)
	}
}

// TestASignInLeadsToTheConsoleAlone: a link to it sends nobody elsewhere.
func TestASignInLeadsToTheConsoleAlone(t *testing.T) {
	s := newSignedIn(t, "")
	for asked, goes := range map[string]string{
		"/ui/time?from=5": "/ui/time?from=5", "/ui/": "/ui", "": "/ui/", "//evil.example/ui/": "/ui/", "https://evil.example/ui/": "/ui/",
		"/ui/../v1/session": "/ui/", "/uix": "/ui/", "javascript:alert(1)": "/ui/", `/\evil.example`: "/ui/", "/ui//evil.example": "/ui/evil.example", "%zz": "/ui/",
	} {
		to, kept := s.begun(asked)
		view, session := s.returned(s.allowed(to, "4711"), shown(kept))
		require.NotNil(t, session)
		require.Equal(t, goes, view, asked)
	}
}

// TestWhereTheIssuerSendsBrowsersBack: to where the browser found the plane, or, behind a
// proxy, to where it is said to be.
func TestWhereTheIssuerSendsBrowsersBack(t *testing.T) {
	s := newSignedIn(t, "")
	to, kept := s.begun("")
	require.Equal(t, "http://example.com/v1/session/callback", to.Query().Get("redirect_uri"))
	require.False(t, kept.Secure)

	believed, err := access.NewIssuer(t.Context(), s.issuer.URL, s.issuer.ClientID, s.issuer.Client())
	require.NoError(t, err)
	s = newSignedIn(t, "", func(d *api.Deps) {
		at, err := believed.SignIn("", "https://plane.example/")
		require.NoError(t, err)
		d.SignIn = func() *access.SignIn { return at }
	})
	to, kept = s.begun("")
	require.Equal(t, "https://plane.example/v1/session/callback", to.Query().Get("redirect_uri"))
	require.True(t, kept.Secure)
	for _, home := range []string{"plane.example", "ftp://plane.example", "https://plane.example/?x", "https://"} {
		_, err := believed.SignIn("", home)
		require.Error(t, err, home)
	}
}

// TestCodesOfAnIssuerAreNotGuessed: wrong ones count as wrong credentials do, so nobody has
// the issuer asked without end.
func TestCodesOfAnIssuerAreNotGuessed(t *testing.T) {
	s := newSignedIn(t, "", func(d *api.Deps) { d.Failures = access.NewFailures(1) })
	to, kept := s.begun("")
	q := url.Values{"code": {"none"}, "state": {to.Query().Get("state")}}
	for range 100 {
		if a := s.do("GET", "/v1/session/callback?"+q.Encode(), "", shown(kept)); a.StatusCode == http.StatusTooManyRequests {
			s.want(429, "too_many_failures", a)
			return
		}
	}
	t.Fatal("nobody stopped it")
}

func TestWithoutAnIssuerNobodySignsIn(t *testing.T) {
	now := time.Now()
	guardedOne, _ := guarded(t, map[string][]string{"reader": {"plane#read"}}, withSessions(t, &now))
	for _, p := range []*plane{newPlane(t), guardedOne} {
		require.Equal(t, resource.SignIn{}, into[resource.SignIn](t, p.do("GET", "/v1/session", "")))
		p.want(404, "no_sign_in", p.do("GET", "/v1/session/sign-in", ""))
		p.want(404, "no_sign_in", p.do("GET", "/v1/session/callback?code=x&state=y", ""))
	}
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	_, err := access.NewIssuer(t.Context(), s.URL, "edict", s.Client())
	require.Error(t, err)
}

// A browser keeps 4 KiB: of a view that is longer it keeps none, and the sign-in goes on.
func TestWhoSignsInFromAViewThatIsTooLongComesToTheConsole(t *testing.T) {
	s := newSignedIn(t, "")
	for _, view := range []string{"/ui/nodes?labels=" + strings.Repeat("a", 5000), "/ui/" + strings.Repeat("é", 2000)} {
		to, kept := s.begun(view)
		where, session := s.returned(s.allowed(to, "4711"), shown(kept))
		require.Equal(t, "/ui/", where)
		require.NotNil(t, session)
	}
}

// Who begins to sign in may come back with any text as the issuer's, and is not known yet.
func TestWhatAnIssuerIsSaidToSayIsLoggedInShort(t *testing.T) {
	var logged bytes.Buffer
	s := newSignedIn(t, "", func(d *api.Deps) { d.Trace = slog.New(slog.NewTextHandler(&logged, nil)) })
	_, kept := s.begun("")
	where, _ := s.returned(url.Values{"error": {"made up " + strings.Repeat("x", 5000)}}, shown(kept))
	require.Equal(t, "/ui/#sign_in=failed", where)
	require.Contains(t, logged.String(), "made up")
	require.Less(t, logged.Len(), 1000)
}

// A plane that cannot ask the issuer for its keys does not know whose a token is. 401 would have
// a client throw it away, and a console end its session.
func TestATokenWhoseIssuerIsAwayIsNotRefused(t *testing.T) {
	s := newSignedIn(t, "")
	claims := map[string]any{"iss": s.issuer.URL, "aud": s.issuer.ClientID, "sub": "4711", "iat": s.now.Unix(), "exp": s.now.Add(time.Hour).Unix()}
	token := "Authorization: Bearer " + s.issuer.Sign(s.issuer.Key, claims)
	s.issuer.Close()
	a := s.do("GET", "/v1/access/self", "", token)
	s.want(503, "issuer_unavailable", a)
	require.NotEmpty(t, a.Header.Get("Retry-After"))
	require.Empty(t, a.Header.Get("WWW-Authenticate"))
	s.want(401, "unauthenticated", s.do("GET", "/v1/access/self", "", "Authorization: Bearer edt_nobody"))
}

// Whoever sends tokens of a key that the issuer does not have is slowed down, also while it is not
// asked any more whether it has that key by now.
func TestForgedTokensCountAsFailures(t *testing.T) {
	s := newSignedIn(t, "", func(d *api.Deps) { d.Failures = access.NewFailures(1) })
	forger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	claims := map[string]any{"iss": s.issuer.URL, "aud": s.issuer.ClientID, "sub": "4711", "iat": s.now.Unix(), "exp": s.now.Add(time.Hour).Unix()}
	forged := "Authorization: Bearer " + s.issuer.Sign(forger, claims)
	met := map[int]bool{}
	for range 100 {
		met[s.do("GET", "/v1/access/self", "", forged).StatusCode] = true
	}
	require.Equal(t, map[int]bool{401: true, 503: true, 429: true}, met)
}
