package rete

import "slices"

// Holder is a principal whose key and certificate a node holds.
type Holder struct {
	Kind   string // PrincipalNode, PrincipalUser or PrincipalService
	SPIFFE string
	Leaf   string // its files in the install root: <leaf>.crt and <leaf>.key
}

// Holders are the principals of a node: itself, its users, its services.
func (v *View) Holders(node string) []Holder {
	all := []Holder{{PrincipalNode, v.nodeID(node), node}}
	for _, u := range v.Users.All {
		if slices.ContainsFunc(u.Value.Nodes, func(d Device) bool { return d.At == node }) {
			all = append(all, Holder{PrincipalUser, v.userID(u.Name), u.Name})
		}
	}
	for _, s := range v.Services.All {
		if s.Value.At == node {
			all = append(all, Holder{PrincipalService, v.serviceID(s), s.Name})
		}
	}
	return all
}
