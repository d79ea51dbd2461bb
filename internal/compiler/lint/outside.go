package lint

import (
	"fmt"

	"github.com/edictdev/edict/policy"
)

// CodeOutside is of nodes that a policy matches and does not touch. Only who knows
// the nodes can say it: a dry run of the plane.
const CodeOutside = "node_outside_cidrs"

// CodeMatchesNone is of a selector that no node of the project has the labels for. Only who
// knows the nodes can say it, too.
const CodeMatchesNone = "matches_no_node"

// MatchesNone warns that no node matches a selector, on either side.
func MatchesNone() Warning {
	return Warning{Violation: policy.Violation{
		Pointer: "/selector", Code: CodeMatchesNone,
		Detail: "no node of the project matches it now, on either side; look for a word that is spelled otherwise in the nodes' labels",
	}}
}

// Outside warns that no rule applies to nodes that the policy matches: their
// addresses lie in none of the CIDRs on their side.
func Outside(n Nodes) Warning {
	return Warning{Violation: policy.Violation{
		Pointer: "/rules", Code: CodeOutside,
		Detail: fmt.Sprintf("no rule applies to %s that it matches, for want of an address in a CIDR: %s; correct the CIDRs, or the addresses", n.count(), n.names()),
	}}
}
