package api

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/api/openapi"
)

const (
	patternSignIn = "/v1/session/sign-in"
	patternReturn = "/v1/session/callback"
)

// signInHandlers open a browser's session for who signs in at the issuer.
type signInHandlers struct {
	*sessionHandlers
	signIn func() *access.SignIn // nil, or its nil: nobody signs in anywhere now
	log    *slog.Logger
}

func (h *signInHandlers) routes() []Route {
	elsewhere := []Answer{{Status: http.StatusSeeOther, Headers: []string{"Location", "Set-Cookie"}}}
	return []Route{
		{
			Method: http.MethodGet, Pattern: "/v1/session", ID: "getSignIn", Tag: tagAccess, Needs: access.Anyone, early: true,
			Summary: "Say where people sign in to the console",
			Answers: jsonAnswer(http.StatusOK, resource.SignIn{}), serve: h.show,
		},
		{
			Method: http.MethodGet, Pattern: patternSignIn, ID: "beginSignIn", Tag: tagAccess, Needs: access.Anyone, early: true,
			Summary: "Send a browser to the issuer, where its user signs in",
			Params:  []Param{queryText("view", "The view of the console to go on with, a path below "+consolePath+".")},
			Answers: elsewhere, Problems: []string{CodeNoSignIn}, serve: h.begin,
		},
		{
			Method: http.MethodGet, Pattern: patternReturn, ID: "endSignIn", Tag: tagAccess, Needs: access.Anyone, early: true,
			Summary: "Take a browser back from the issuer: it gets its session's cookie, and goes on to the console, which says so when it gets none",
			Params: []Param{
				queryText("code", "What the identity token is asked for with."), queryText("state", "As the issuer was given it."),
				queryText("error", "Why there is no code."), queryText("iss", "Who answers."),
			},
			foreign: true, Answers: elsewhere, Problems: []string{CodeNoSignIn, CodeTooManyFailures}, serve: h.end,
		},
	}
}

// CodeNoSignIn means that nobody signs in with a browser here.
const CodeNoSignIn = "no_sign_in"

func noSignIn() error {
	return problem(http.StatusNotFound, CodeNoSignIn, "people sign in nowhere here: the plane has no --oidc-issuer; edict ui prints a link to the console")
}

// offered is where people sign in; nil: nowhere.
func (h *signInHandlers) offered() *access.SignIn {
	if h.signIn == nil || h.auth.access == nil || h.auth.sessions == nil {
		return nil
	}
	return h.signIn()
}

func (h *signInHandlers) show(c *call) error {
	out := resource.SignIn{}
	if at := h.offered(); at != nil {
		out.Issuer, out.Path = at.Issuer(), patternSignIn
	}
	return c.json(http.StatusOK, out)
}

// begin may be asked for by any page. It changes nothing but the browser's own cookie.
func (h *signInHandlers) begin(c *call) error {
	at := h.offered()
	if at == nil {
		return noSignIn()
	}
	to, kept := at.Begin(back(c, at), viewOf(c.r.URL.Query().Get("view")), h.auth.clock())
	text, err := h.auth.sessions.Keep(kept)
	if errors.Is(err, access.ErrSessionTooLong) {
		kept.View = consolePath // what is asked for is longer than a cookie
		text, err = h.auth.sessions.Keep(kept)
	}
	if err != nil {
		return err
	}
	http.SetCookie(c.w, h.kept(c, at, text))
	return goTo(c, to)
}

// end takes a browser back. What goes wrong is said by the console: nobody reads a
// problem's JSON who came from a form.
func (h *signInHandlers) end(c *call) error {
	at := h.offered()
	if at == nil {
		return noSignIn()
	}
	if wait := h.auth.failures.blocked(c); wait != nil {
		return wait
	}
	gone := h.kept(c, at, "")
	gone.MaxAge = -1
	http.SetCookie(c.w, gone)
	view, err := h.opened(c, at)
	if err != nil {
		h.auth.failures.failed(c)
		h.log.Warn("a sign-in to the console failed", "error", err, "correlation_id", c.correlation)
		return goTo(c, consolePath+"#sign_in="+whyNot(err))
	}
	return goTo(c, view)
}

// opened sets the session's cookie, and says with which view to go on.
func (h *signInHandlers) opened(c *call, at *access.SignIn) (view string, err error) {
	q := c.r.URL.Query()
	cookie, err := c.r.Cookie(h.auth.sessions.Kept())
	if err != nil {
		return "", access.ErrSignInOver
	}
	kept, err := h.auth.sessions.Attempt(cookie.Value)
	if err != nil {
		return "", err
	}
	if why := q.Get("error"); why != "" {
		return "", &refusedThere{why}
	}
	ctx := c.r.Context()
	token, ends, err := at.Finish(ctx, kept, access.Return{Code: q.Get("code"), State: q.Get("state"), Issuer: q.Get("iss")}, back(c, at))
	if err != nil {
		return "", err
	}
	given := access.Credentials{Bearer: token}
	if _, err = h.auth.access.Authenticate(ctx, given); errors.Is(err, access.ErrUnknown) {
		if lag := h.auth.reads.catchUp(c, 0); lag != nil {
			return "", lag
		}
		_, err = h.auth.access.Authenticate(ctx, given)
	}
	if err != nil {
		return "", err
	}
	text, until, err := h.auth.sessions.Lend(given, ends)
	if err != nil {
		return "", err
	}
	session := h.cookie(c, text)
	session.Expires = until
	http.SetCookie(c.w, session)
	return kept.View, nil
}

// refusedThere is an issuer's answer that has no code.
type refusedThere struct{ why string }

func (e *refusedThere) Error() string { return fmt.Sprintf("the issuer says %.80q", e.why) }

// whyNot is one of the words that the console has a sentence for.
func whyNot(err error) string {
	var there *refusedThere
	switch {
	case errors.As(err, &there) && there.why == "access_denied":
		return "denied"
	case errors.Is(err, access.ErrSignInOver):
		return "over"
	case errors.Is(err, access.ErrUnknown):
		return "unknown"
	case errors.Is(err, access.ErrSessionTooLong):
		return "too_long"
	}
	return "failed"
}

// back is where the issuer sends browsers.
func back(c *call, at *access.SignIn) string {
	scheme := "http://"
	if c.r.TLS != nil {
		scheme = "https://"
	}
	return at.Home(scheme+c.r.Host) + patternReturn
}

// kept is the cookie of a browser that is at the issuer. It comes back from another
// site's page, with which browsers send no Strict cookie.
func (h *signInHandlers) kept(c *call, at *access.SignIn, text string) *http.Cookie {
	return &http.Cookie{
		Name: h.auth.sessions.Kept(), Value: text, Path: patternReturn, MaxAge: int(access.SignInLife.Seconds()),
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: strings.HasPrefix(back(c, at), "https://"),
	}
}

// viewOf is a path of the console with its query, whatever was asked for.
func viewOf(asked string) string {
	u, err := url.Parse(asked)
	if err != nil || u.IsAbs() || u.Host != "" || u.Opaque != "" || !strings.HasPrefix(path.Clean(u.Path)+"/", consolePath) {
		return consolePath
	}
	return (&url.URL{Path: path.Clean(u.Path), RawQuery: u.RawQuery}).String()
}

// goTo sends a browser elsewhere, with a GET.
func goTo(c *call, to string) error {
	c.w.Header().Set("Location", to)
	c.w.Header().Set("Cache-Control", "no-store")
	c.w.Header().Set("Referrer-Policy", "no-referrer") // the address that is left has a code in it
	c.w.WriteHeader(http.StatusSeeOther)
	return nil
}

// signInHints describe the answers of sign-ins.
func signInHints() map[string]hint {
	return map[string]hint{
		"SignIn":        says("Where people sign in to the console."),
		"SignIn.issuer": {Schema: openapi.Schema{Examples: []any{"https://id.example.com"}}},
	}
}
