package api

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// headsAtOnce is how many heads are read before the fold may go on.
const headsAtOnce = 64

// withRule lists policies one of whose rules has all these words, each with its head.
func (h *policyHandlers) withRule(c *call, wanted func(policy.Policy) bool, words []string, project, above uuid.UUID, limit int) error {
	var found []policy.Policy
	for more := true; more && len(found) <= limit; {
		if err := c.r.Context().Err(); err != nil {
			return err
		}
		var err error
		h.model.Read(func(v *projector.View) {
			var part []policy.Policy
			if part, above, more, err = v.Policies(project, above, headsAtOnce); err != nil {
				return
			}
			for _, p := range part {
				if !wanted(p) {
					continue
				}
				if p, _, err = v.Policy(project, p.ID); err != nil {
					return
				}
				if slices.ContainsFunc(p.Head.Rules, func(r policy.Rule) bool { return hasWords(r, words) }) {
					found = append(found, p)
				}
			}
		})
		if err != nil {
			return err
		}
	}
	return tagged(c, cut(found, limit, cursorPolicies, func(p policy.Policy) string { return p.ID.String() }, func(p policy.Policy) resource.Policy { return showPolicy(p) }))
}

// hasWords reports whether a rule's text has each of some words in lower case.
func hasWords(r policy.Rule, words []string) bool {
	text := strings.ToLower(ruleLine(r))
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
}

// ruleLine is a rule as people write it in one line.
func ruleLine(r policy.Rule) string {
	var b strings.Builder
	fmt.Fprint(&b, r.Action, " ", r.Protocol)
	switch {
	case r.Ports.From == 0:
	case r.Ports.From == r.Ports.To:
		fmt.Fprintf(&b, " %d", r.Ports.From)
	default:
		fmt.Fprintf(&b, " %d-%d", r.Ports.From, r.Ports.To)
	}
	side := func(cidr fmt.Stringer, is bool, selector string) string {
		if is {
			return cidr.String()
		}
		return "{" + selector + "}"
	}
	fmt.Fprintf(&b, " from %s to %s %s", side(r.Source, r.Source.IsValid(), r.SourceSelector), side(r.Destination, r.Destination.IsValid(), r.DestinationSelector), r.Direction)
	return b.String()
}
