package api

import (
	"net/http"

	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// authors say who writes which admission policies.
type authors struct{ auth *authorizer }

// may lets a principal write a policy, or says what that needs. Its relations may
// have been given elsewhere a moment ago.
func (a authors) may(c *call, d policy.AdmissionPolicy) error {
	if c.who == nil || c.who.MayAuthor(d.Level, d.Tenant, d.User) {
		return nil
	}
	if err := a.auth.reads.catchUp(c, 0); err != nil {
		return err
	}
	who, err := a.auth.authenticate(c)
	if err != nil {
		return err
	}
	if c.who = who; who.MayAuthor(d.Level, d.Tenant, d.User) {
		return nil
	}
	return problem(http.StatusForbidden, CodeForbidden, "%s may not write this %s policy: it needs %s", who.ID, d.Level, access.AuthorsOf(d.Level, d.Tenant, d.User))
}

// sees reports whether there is such a policy for who asks.
func (a authors) sees(c *call, x projector.AdmissionPolicy) bool {
	return c.who == nil || c.who.MaySee(x.Document.Level, x.Document.Tenant, x.Document.User)
}
