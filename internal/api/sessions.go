package api

import (
	"errors"
	"net/http"
	"time"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/policy"
)

// consolePath is where the console is, which links begin with.
const consolePath = "/ui/"

// sessionHandlers open and close the sessions of browsers.
type sessionHandlers struct {
	auth *authorizer
}

func (h *sessionHandlers) routes() []Route {
	return []Route{
		{
			Method: http.MethodPost, Pattern: "/v1/session-links", ID: "createSessionLink", Tag: tagAccess, Needs: access.Known, early: true,
			Summary: "Make a link that opens the console in a browser, once, with the caller's credentials",
			Answers: jsonAnswer(http.StatusOK, resource.SessionLink{}), Problems: []string{CodeTooManyAtOnce}, serve: h.link,
		},
		{
			Method: http.MethodPost, Pattern: "/v1/session", ID: "openSession", Tag: tagAccess, Needs: access.Anyone, early: true,
			Summary:  "Open the session of a link: the answer sets its cookie, which stands in for the credentials of whoever made the link",
			BodyType: mediaJSON, Body: resource.SessionCode{}, Answers: jsonAnswer(http.StatusOK, resource.Session{}, "Set-Cookie"),
			Problems: bodyProblems(policy.CodeMissing, CodeInvalidSessionCode, CodeTooManyFailures), serve: h.open,
		},
		{
			Method: http.MethodDelete, Pattern: "/v1/session", ID: "closeSession", Tag: tagAccess, Needs: access.Anyone, early: true,
			Summary: "Take the session's cookie back", Answers: []Answer{{Status: http.StatusNoContent, Headers: []string{"Set-Cookie"}}}, serve: h.close,
		},
	}
}

func (h *sessionHandlers) link(c *call) error {
	if h.auth.access == nil || h.auth.sessions == nil {
		return c.json(http.StatusOK, resource.SessionLink{Path: consolePath})
	}
	given, ends, err := h.auth.credentials(c.r)
	if err != nil {
		return err
	}
	ends = earlier(ends, certificateEnd(c.r))
	if until, sure := h.auth.access.Until(given); sure {
		ends = earlier(ends, until)
	}
	code, until, err := h.auth.sessions.Link(given, ends)
	if err != nil {
		return problem(http.StatusServiceUnavailable, CodeTooManyAtOnce, "%v; try again in a minute", err)
	}
	until = until.UTC()
	return c.json(http.StatusOK, resource.SessionLink{Path: consolePath + "#code=" + code, ExpiresAt: &until})
}

func (h *sessionHandlers) open(c *call) error {
	in, err := decoded(c, policy.DecodeSessionCode)
	if err != nil {
		return err
	}
	if wait := h.auth.failures.blocked(c); wait != nil {
		return wait
	}
	if h.auth.access == nil || h.auth.sessions == nil {
		http.SetCookie(c.w, h.gone(c))
		return c.json(http.StatusOK, resource.Session{})
	}
	text, until, err := h.auth.sessions.Open(in)
	if err != nil {
		if errors.Is(err, access.ErrNoLink) {
			h.auth.failures.failed(c)
		}
		return invalidSessionCode(err)
	}
	cookie := h.cookie(c, text)
	cookie.Expires = until
	http.SetCookie(c.w, cookie)
	until = until.UTC()
	return c.json(http.StatusOK, resource.Session{ExpiresAt: &until})
}

// CodeInvalidSessionCode means that a code opens no session.
const CodeInvalidSessionCode = "invalid_session_code"

func invalidSessionCode(err error) error {
	return broken(http.StatusUnprocessableEntity, CodeInvalidSessionCode, "/code", "%v; run edict ui again", err)
}

func (h *sessionHandlers) close(c *call) error {
	http.SetCookie(c.w, h.gone(c))
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// cookie is one that no script reads and no other site's page sends.
func (h *sessionHandlers) cookie(c *call, text string) *http.Cookie {
	name := "edict_session" // where there are no sessions, nothing is called so
	if h.auth.sessions != nil {
		name = h.auth.sessions.Cookie()
	}
	return &http.Cookie{
		Name: name, Value: text, Path: "/",
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: c.r.TLS != nil,
	}
}

// gone takes the cookie back.
func (h *sessionHandlers) gone(c *call) *http.Cookie {
	cookie := h.cookie(c, "")
	cookie.MaxAge = -1
	return cookie
}

// earlier is the first of two moments; a zero one is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// certificateEnd is when the client's certificate is over; zero: it showed none.
func certificateEnd(r *http.Request) time.Time {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return time.Time{}
	}
	return r.TLS.PeerCertificates[0].NotAfter
}
