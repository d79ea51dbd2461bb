package lint

import (
	"fmt"

	"github.com/edictdev/edict/policy"
)

// Codes of rules of two policies of equal priority that want different things of
// the same flows. Neither author can see in his own file which of them gets his way.
const (
	CodeRedirectsDiffer = "redirects_differ"
	CodeAuthDiffers     = "auth_differs"
)

// conflict is a rule and one of another policy of equal tier and priority. before
// is their order, 0 where the ids of the policies decide.
type conflict struct {
	i, j        int
	mine, their *end
	slug        string
	before      int
}

// conflict warns where the two want different things of the same flows, unless one
// keeps the other from ever deciding, which has a warning of its own.
func (b *overlapping) conflict(c conflict) {
	has := &b.warned[c.i]
	equal := !has.equal && c.mine.Action != c.their.Action
	redirects := !has.redirects && c.redirects()
	auth := !has.auth && c.auth()
	if !equal && !redirects && !auth || !c.mine.overlaps(c.their) || c.their.before(c.mine, c.before) || c.mine.before(c.their, -c.before) {
		return
	}
	if equal {
		has.equal = true
		b.warn(c.i, c.slug, CodeEqualLevel, "it overlaps rule %d (%s) of policy %s and both stand at the same priority: %s; set different priorities, or write rules that do not overlap", c.j, c.their.Action, c.slug, c.first())
	}
	if redirects {
		has.redirects = true
		b.warn(c.i, c.slug, CodeRedirectsDiffer, "it redirects to port %d what rule %d of policy %s redirects to port %d, at the same priority: %s; name one port in both, or set different priorities", c.mine.ProxyPort, c.j, c.slug, c.their.ProxyPort, c.first())
	}
	if auth {
		has.auth = true
		b.warn(c.i, c.slug, CodeAuthDiffers, "it says auth %s where rule %d of policy %s says %s, at the same priority: %s; say the same in both, or set different priorities", c.mine.Auth, c.j, c.slug, c.their.Auth, c.speaks())
	}
}

// redirects reports whether the two redirect to different ports and no listener
// priority says which of them goes first.
func (c conflict) redirects() bool {
	return c.mine.Action == policy.Redirect && c.their.Action == policy.Redirect && c.mine.ProxyPort != c.their.ProxyPort &&
		(c.mine.step != c.their.step || c.before == 0)
}

// auth reports whether one asks both ends to prove who they are and the other asks
// them not to.
func (c conflict) auth() bool {
	return c.mine.Auth != "" && c.their.Auth != "" && c.mine.Auth != c.their.Auth
}

// first says which of the two goes first, and why.
func (c conflict) first() string {
	switch {
	case c.before == 0:
		return "the policy whose id is lower goes first"
	case c.mine.step == c.their.step:
		return fmt.Sprintf("%s goes first", first(c.mine.Rule, c.their.Rule))
	case c.before < 0:
		return fmt.Sprintf("rules of equal priority are tried by their index, so rule %d of this policy goes first until a rule is put before it", c.i)
	}
	return fmt.Sprintf("rules of equal priority are tried by their index, so rule %d of policy %s goes first until a rule is put before it", c.j, c.slug)
}

// speaks is first for what the two say of auth.
func (c conflict) speaks() string {
	if c.mine.step == c.their.step {
		return "the one with narrower ports counts, and required where both are as narrow"
	}
	return c.first()
}
