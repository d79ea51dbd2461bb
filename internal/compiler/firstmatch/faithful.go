package firstmatch

import (
	"net/netip"
	"slices"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/policy"
)

// maxPairs bounds the pairs of rules that are compared: with more, the rules are
// resolved.
const maxPairs = 1 << 20

// Faithful reports whether the plain rules of a node, one policy after the other by
// id and each in canonical order, decide by first match as the node's table does, if
// all peers have one address. The policies must be plain (policy.Content.Extended),
// the oldest id first, and the node has addresses. There are two reasons why they do
// not: an allow stands before a deny of the same flows; and a rule's CIDR holds one
// address of the node and not another of the same family.
func Faithful(n policy.Node, heads []datapath.Head) bool {
	var egress, ingress []policy.Rule
	for _, h := range datapath.InForce(heads) {
		for _, r := range compiler.Canonical(h.Revision.Rules) {
			if r.Action == policy.Log {
				continue
			}
			var split bool
			if egress, split = onSide(egress, r, n, r.Source); split {
				return false
			}
			if ingress, split = onSide(ingress, r, n, r.Destination); split {
				return false
			}
		}
	}
	return inOrder(egress, func(r policy.Rule) netip.Prefix { return r.Destination }) &&
		inOrder(ingress, func(r policy.Rule) netip.Prefix { return r.Source })
}

// onSide appends a rule if the CIDR of one of its sides holds an address of the
// node. split: it holds another one of the same family not.
func onSide(list []policy.Rule, r policy.Rule, n policy.Node, cidr netip.Prefix) (_ []policy.Rule, split bool) {
	in, out := false, false
	for _, a := range n.Addresses {
		switch {
		case cidr.Contains(a):
			in = true
		case cidr.Addr().Is4() == a.Is4():
			out = true
		}
	}
	if in {
		list = append(list, r)
	}
	return list, in && out
}

// Rule is a plain rule as it stands in a payload.
type Rule struct {
	Source      netip.Prefix  `json:"source_cidr"`
	Destination netip.Prefix  `json:"destination_cidr"`
	Protocol    string        `json:"protocol"`
	Ports       policy.Ports  `json:"ports"`
	Action      policy.Action `json:"action"`
}

// Conflict reports whether an allow stands before a deny of the same flows, between
// whatever addresses.
func Conflict(rules []Rule) bool {
	boxes, pairs := make([]box, len(rules)), 0
	for i, r := range rules {
		protocol, _ := datapath.ParseProtocol(r.Protocol)
		boxes[i] = box{self: r.Source, peer: r.Destination, protocol: protocol, ports: r.Ports}
		for j := 0; r.Action == policy.Deny && j < i; j++ {
			if pairs++; pairs > maxPairs {
				return true
			}
			if _, both := boxes[i].within(boxes[j]); both && rules[j].Action == policy.Allow {
				return true
			}
		}
	}
	return false
}

// inOrder reports whether no allow stands before a deny of the same flows.
func inOrder(rules []policy.Rule, peer func(policy.Rule) netip.Prefix) bool {
	if !slices.ContainsFunc(rules, func(r policy.Rule) bool { return r.Action == policy.Deny }) {
		return true
	}
	boxes, pairs := make([]box, len(rules)), 0
	for i, r := range rules {
		protocol, _ := datapath.ParseProtocol(string(r.Protocol)) // the closed sets are one
		boxes[i] = box{peer: peer(r), protocol: protocol, ports: r.Ports}
		if r.Action != policy.Deny {
			continue
		}
		for j := range i {
			if pairs++; pairs > maxPairs {
				return false
			}
			if rules[j].Action != policy.Allow {
				continue
			}
			if _, both := boxes[i].within(boxes[j]); both {
				return false
			}
		}
	}
	return true
}
