package api

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// Access tells who asks; *access.Registry does.
type Access interface {
	Authenticate(ctx context.Context, c access.Credentials) (*access.Principal, error)
	Until(c access.Credentials) (until time.Time, sure bool)
	Taken(id policy.PrincipalID, d policy.Principal) (by policy.PrincipalID, pointer string)
	Listed(id policy.PrincipalID) bool
	Filed(id policy.PrincipalID, rel policy.Relation) bool
}

// Codes of requests that are not allowed.
const (
	CodeUnauthenticated   = "unauthenticated"
	CodeIssuerUnavailable = "issuer_unavailable"
	CodeForbidden         = "forbidden"
	CodeProjectNotFound   = "project_not_found"
	CodeTooManyRequests   = "too_many_requests"
)

// authorizer lets those requests pass that their principal may make.
type authorizer struct {
	access  Access // nil: everybody may do anything
	local   bool   // everybody on this machine, that is
	limiter *access.Limiter
	model   interface {
		views
		Applied() uint64
	}
	reads    *reads
	failures failureLimit
	sessions *access.Sessions // nil: nobody has one
	clock    func() time.Time
	streams  revalidator
	followed held // what operators follow
}

// authorize lets a request pass, or says why not: who it is first (401), then
// whether that principal has requests left (429), then whether it may (403), or
// may not even see what it asks for (404). Without Access everybody may.
func (a *authorizer) authorize(c *call) error {
	if c.route.Needs == access.Anyone {
		return nil
	}
	if a.access == nil {
		return a.checkHost(c.r)
	}
	who, err := a.authenticate(c)
	if err != nil {
		return err
	}
	c.who, c.principal = who, string(who.ID)
	if wait, ok := a.limiter.Take(who.ID, time.Now()); !ok {
		c.retryIn(wait)
		return problem(http.StatusTooManyRequests, CodeTooManyRequests, "%s sends more requests than it may; wait, then send fewer", who.ID)
	}
	o := a.object(c)
	decision := who.Decide(c.route.Needs, o)
	if decision == access.Allow {
		return nil
	}
	// A relation that was given elsewhere may not have been folded here yet.
	if err := a.reads.catchUp(c, 0); err != nil {
		return err
	}
	if who, err = a.authenticate(c); err != nil {
		return err
	}
	c.who = who
	switch who.Decide(c.route.Needs, a.object(c)) {
	case access.Allow:
		return nil
	case access.Hide:
		return hidden(c, o)
	}
	return problem(http.StatusForbidden, CodeForbidden, "%s may not do this: it needs %s", who.ID, c.route.Needs)
}

// checkHost refuses what was sent to a name that is not this machine's own, where nobody has to
// prove who it is. A web page can have a name of its own lead here: its browser would take
// it for one of ours.
func (a *authorizer) checkHost(r *http.Request) error {
	u := url.URL{Host: r.Host}
	name := strings.ToLower(u.Hostname())
	_, noAddress := netip.ParseAddr(name)
	if !a.local || name == "" || noAddress == nil || name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return nil
	}
	return problem(http.StatusBadRequest, CodeBadHeader, "Host: %.80q may be any web page's name for this machine; ask at 127.0.0.1, [::1] or localhost, or configure access (--access)", name)
}

// authenticate finds the principal of a request. One that was made elsewhere a
// moment ago is looked for again once the fold has caught up: agents give up
// for good on a 401.
func (a *authorizer) authenticate(c *call) (*access.Principal, error) {
	given, _, err := a.credentials(c.r)
	if err == nil && given.None() {
		err = problem(http.StatusUnauthorized, CodeUnauthenticated, "this needs credentials: a bearer token or a client certificate")
	}
	if err != nil {
		c.w.Header().Set("WWW-Authenticate", "Bearer")
		return nil, err
	}
	ctx := c.r.Context()
	who, err := a.access.Authenticate(ctx, given)
	if errors.Is(err, access.ErrUnknown) {
		if wait := a.failures.blocked(c); wait != nil {
			return nil, wait
		}
		if lag := a.reads.catchUp(c, 0); lag != nil {
			return nil, lag
		}
		who, err = a.access.Authenticate(ctx, given)
	}
	if errors.As(err, new(*access.AwayError)) {
		if errors.Is(err, access.ErrAskedEnough) { // most of these are of who made them up
			if wait := a.failures.blocked(c); wait != nil {
				return nil, wait
			}
			a.failures.failed(c)
		}
		return nil, problem(http.StatusServiceUnavailable, CodeIssuerUnavailable,
			"the issuer of identity tokens cannot be asked for its keys now, so it is not known whose this token is: try again, or show another credential")
	}
	if err != nil {
		a.failures.failed(c)
		c.w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		return nil, problem(http.StatusUnauthorized, CodeUnauthenticated, "%v", err)
	}
	return who, nil
}

// credentials are what a request shows of its sender: what its headers say, else what
// its session lends until ends, which is zero otherwise.
func (a *authorizer) credentials(r *http.Request) (c access.Credentials, ends time.Time, err error) {
	c.SPIFFE = access.SPIFFEIDs(r.TLS)
	if n := len(r.Header.Values("Authorization")); n > 1 {
		return c, ends, problem(http.StatusUnauthorized, CodeUnauthenticated, "Authorization stands %d times, and it is not known whose the request is; send it once", n)
	}
	if h := r.Header.Get("Authorization"); h != "" {
		scheme, token, ok := strings.Cut(h, " ")
		if token = strings.TrimSpace(token); !ok || !strings.EqualFold(scheme, "Bearer") || token == "" {
			return c, ends, problem(http.StatusUnauthorized, CodeUnauthenticated, "Authorization: want Bearer and a token")
		}
		c.Bearer = token
		return c, ends, nil
	}
	if a.sessions == nil {
		return c, ends, nil
	}
	cookie, none := r.Cookie(a.sessions.Cookie())
	if none != nil {
		return c, ends, nil
	}
	if c, ends, err = a.sessions.Read(cookie.Value); err != nil {
		return c, ends, problem(http.StatusUnauthorized, CodeUnauthenticated, "%v; run edict ui again, or sign in", err)
	}
	return c, ends, nil
}

// object is what a request's path is about. A part that cannot be read is
// nobody's.
func (a *authorizer) object(c *call) (o access.Object) {
	o.Project, _ = parseID(c.r.PathValue("project"))
	o.Policy, _ = parseID(c.r.PathValue("policy"))
	o.Node = policy.NodeID(c.r.PathValue("node"))
	if n := c.route.Needs; n == access.ReadNode || n == access.ActAsNode {
		a.model.Read(func(v *projector.View) { o.Project, _ = v.ProjectOfNode(o.Node) })
	}
	return o
}

// hidden answers as if there were nothing.
func hidden(c *call, o access.Object) error {
	switch {
	case o.Policy != uuid.Nil:
		return policyNotFound(o.Policy)
	case c.route.Needs == access.ReadNode, c.route.Needs == access.ActAsNode:
		return nodeNotFound(o.Node)
	}
	if o.Project == uuid.Nil { // what was asked for is no UUID
		return problem(http.StatusNotFound, CodeProjectNotFound, "there is no project %.80q that you may see; want its UUID", c.r.PathValue("project"))
	}
	return problem(http.StatusNotFound, CodeProjectNotFound, "there is no project %s that you may see", o.Project)
}

// accessProblems are the codes that a route's need adds.
func accessProblems(r Route) []string {
	switch r.Needs {
	case access.Anyone:
		return nil
	case access.Known:
		return []string{CodeUnauthenticated, CodeIssuerUnavailable, CodeTooManyRequests, CodeTooManyFailures, CodeProjectionBehind, CodeLogUnavailable}
	}
	codes := []string{CodeUnauthenticated, CodeIssuerUnavailable, CodeTooManyRequests, CodeTooManyFailures, CodeProjectionBehind, CodeLogUnavailable}
	switch r.Needs {
	case access.ReadNode, access.ActAsNode:
		return append(codes, CodeForbidden, CodeNodeNotFound)
	case access.ReadPlane, access.AdminPlane, access.Evaluate, access.SeeAdmission, access.AuthorAdmission:
		return append(codes, CodeForbidden)
	case access.EditPolicy, access.ManagePolicy, access.OperateProject:
		codes = append(codes, CodeForbidden)
	}
	if strings.Contains(r.Pattern, "{policy}") {
		return append(codes, CodePolicyNotFound)
	}
	return append(codes, CodeProjectNotFound)
}

// accessCodes are what the codes mean.
func accessCodes() map[string]meaning {
	return map[string]meaning{
		CodeUnauthenticated:    {http.StatusUnauthorized, "there are no credentials, or they are wrong, expired or revoked"},
		CodeIssuerUnavailable:  {http.StatusServiceUnavailable, "the issuer of identity tokens cannot be asked for its keys now, so it is not known whose the token is"},
		CodeForbidden:          {http.StatusForbidden, "the principal lacks a relation that the operation needs"},
		CodeProjectNotFound:    {http.StatusNotFound, "the principal sees no such project"},
		CodeTooManyRequests:    {http.StatusTooManyRequests, "the principal sends more requests than it may"},
		CodeInvalidSessionCode: {http.StatusUnprocessableEntity, "the code opens no session: it was used, is older than a minute, or is another worker's"},
		CodeNoSignIn:           {http.StatusNotFound, "people sign in to the console nowhere: no issuer is configured"},
		CodeTooManyFailures:    {http.StatusTooManyRequests, "too many credentials that are not known came from the address"},
	}
}

// CodeTooManyFailures means that too much was tried in vain from one address.
const CodeTooManyFailures = "too_many_failures"

// failureLimit slows down addresses that show wrong credentials again and again.
type failureLimit struct{ of *access.Failures }

// blocked refuses a request whose address has failed so often that credentials
// which are not known at once are not looked for.
func (f failureLimit) blocked(c *call) error {
	wait := f.of.Blocked(remote(c.r), time.Now())
	if wait <= 0 {
		return nil
	}
	c.retryIn(wait)
	return problem(http.StatusTooManyRequests, CodeTooManyFailures, "too many credentials that are not known here came from this address; wait, then show good ones")
}

// failed counts one failure of the sender's address.
func (f failureLimit) failed(c *call) { f.of.Note(remote(c.r), time.Now()) }

// remote is the address that the connection comes from. Headers that name one
// are not read, because anybody may write them.
func remote(r *http.Request) netip.Addr {
	at, _ := netip.ParseAddrPort(r.RemoteAddr)
	return at.Addr()
}
