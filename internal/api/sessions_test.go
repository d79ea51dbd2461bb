package api_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/api"
)

// withSessions lends credentials to browsers, by a clock of the test.
func withSessions(t *testing.T, now *time.Time) func(*api.Deps) {
	t.Helper()
	return func(d *api.Deps) {
		var err error
		d.Sessions, err = access.NewSessions([]byte("secret"), func() time.Time { return *now })
		require.NoError(t, err)
	}
}

// linkCode is the code of a link that who asks for.
func linkCode(t *testing.T, p *plane, who ...string) string {
	t.Helper()
	a := p.do("POST", "/v1/session-links", "", who...)
	require.Equal(t, 200, a.StatusCode, "%s", a.body)
	_, code, ok := strings.Cut(into[resource.SessionLink](t, a).Path, "/ui/#code=")
	require.True(t, ok)
	return code
}

// openedBy is the cookie that a code is exchanged for.
func openedBy(t *testing.T, p *plane, code string) *http.Cookie {
	t.Helper()
	a := p.do("POST", "/v1/session", `{"code":"`+code+`"}`)
	require.Equal(t, 200, a.StatusCode, "%s", a.body)
	set := a.Header.Values("Set-Cookie")
	require.Len(t, set, 1)
	c, err := http.ParseSetCookie(set[0])
	require.NoError(t, err)
	return c
}

func shown(c *http.Cookie) string { return "Cookie: " + c.Name + "=" + c.Value }

func TestASessionMayWhatItsOpenerMay(t *testing.T) {
	now := time.Now()
	p, tokens := guarded(t, map[string][]string{"reader": {"plane#read"}, "foreign": {"project:" + other + "#operator"}}, withSessions(t, &now))
	c := openedBy(t, p, linkCode(t, p, bearer(tokens["reader"])))
	require.True(t, c.HttpOnly)
	require.Equal(t, http.SameSiteStrictMode, c.SameSite)
	require.NotContains(t, c.Value, tokens["reader"])

	self := into[resource.Self](t, p.do("GET", "/v1/access/self", "", shown(c)))
	require.Equal(t, "reader", self.ID)
	require.Equal(t, 200, p.do("GET", "/v1/status", "", shown(c)).StatusCode)
	p.want(403, "forbidden", p.do("GET", "/v1/access/principals", "", shown(c)))
	p.want(403, "forbidden", p.do("GET", "/v1/status", "", shown(c), bearer(tokens["foreign"]))) // a token counts before

	p.want(422, "invalid_session_code", p.do("POST", "/v1/session", `{"code":"none"}`))
	now = now.Add(access.SessionLife)
	p.want(401, "unauthenticated", p.do("GET", "/v1/access/self", "", shown(c)))
}

func TestALinkIsForWhoeverIsKnownAndIsUsedOnce(t *testing.T) {
	now := time.Now()
	p, tokens := guarded(t, map[string][]string{"reader": {"plane#read"}}, withSessions(t, &now))
	p.want(401, "unauthenticated", p.do("POST", "/v1/session-links", ""))
	code := linkCode(t, p, bearer(tokens["reader"]))
	c := openedBy(t, p, code)
	p.want(422, "invalid_session_code", p.do("POST", "/v1/session", `{"code":"`+code+`"}`))
	require.NotEmpty(t, linkCode(t, p, shown(c)), "a session makes a link for another browser")

	a := p.do("DELETE", "/v1/session", "", shown(c))
	require.Equal(t, 204, a.StatusCode)
	gone, err := http.ParseSetCookie(a.Header.Get("Set-Cookie"))
	require.NoError(t, err)
	require.Equal(t, c.Name, gone.Name)
	require.Negative(t, gone.MaxAge)
}

// TestAnotherSitesPageWritesNothing: a browser sends it no cookie, and if one did, the
// request would be refused by where it comes from.
func TestAnotherSitesPageWritesNothing(t *testing.T) {
	now := time.Now()
	p, tokens := guarded(t, map[string][]string{"manager": roles["manager"]}, withSessions(t, &now))
	c := openedBy(t, p, linkCode(t, p, bearer(tokens["manager"])))
	for _, from := range [][]string{
		{"Sec-Fetch-Site: cross-site"}, {"Sec-Fetch-Site: same-site"}, {"Origin: https://evil.example"}, {"Origin: null"},
	} {
		p.want(400, "bad_header", p.do("POST", policies, draft("web"), append(from, shown(c))...))
	}
	require.Equal(t, 201, p.do("POST", policies, draft("web"), "Sec-Fetch-Site: same-origin", shown(c)).StatusCode)
}

// TestCodesAreNotGuessed: wrong ones count as wrong credentials do.
func TestCodesAreNotGuessed(t *testing.T) {
	now := time.Now()
	p, _ := guarded(t, map[string][]string{"reader": {"plane#read"}}, withSessions(t, &now), func(d *api.Deps) { d.Failures = access.NewFailures(1) })
	for range 100 {
		if p.do("POST", "/v1/session", `{"code":"none"}`).StatusCode == 429 {
			p.want(429, "too_many_failures", p.do("POST", "/v1/session", `{"code":"none"}`))
			return
		}
	}
	t.Fatal("nobody stopped it")
}

func TestWithoutAccessNoSessionIsNeeded(t *testing.T) {
	p := newPlane(t)
	require.Equal(t, resource.SessionLink{Path: "/ui/"}, into[resource.SessionLink](t, p.do("POST", "/v1/session-links", "")))
	a := p.do("POST", "/v1/session", `{"code":"old"}`)
	require.Equal(t, resource.Session{}, into[resource.Session](t, a))
}

// openAndCloseSession asks for what a console asks for first.
func (p *realPlane) openAndCloseSession(t *testing.T) {
	t.Helper()
	link, err := p.SessionLink(t.Context())
	require.NoError(t, err)
	require.Equal(t, "/ui/", link.Path)
	_, err = p.OpenSession(t.Context(), "none")
	require.NoError(t, err)
	require.NoError(t, p.CloseSession(t.Context()))
	where, err := p.SignIn(t.Context())
	require.NoError(t, err)
	require.Empty(t, where.Issuer)
}

// TestAConsoleAtEitherAddressKnowsWhoItIs: where operators' routes have an address of their
// own, the console there opens sessions and asks who it is, too.
func TestAConsoleAtEitherAddressKnowsWhoItIs(t *testing.T) {
	front, admin := api.Split(newPlane(t).deps, "", "")
	for _, h := range []http.Handler{front, admin} {
		for _, asked := range [][2]string{{"GET", "/v1/access/self"}, {"POST", "/v1/session-links"}, {"DELETE", "/v1/session"}} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), asked[0], asked[1], nil))
			require.Less(t, w.Code, 300, "%s", w.Body)
		}
	}
}
