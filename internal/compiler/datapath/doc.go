// Package datapath turns the ordered rules of one node into a table that a data
// path can look up in constant time, and that always answers as a walk down the
// list would (001-ordered-network-policy, docs/design.md#ordered-policy).
//
// The list is flat: a rule here has one direction, seen from the node, and one
// peer. Build takes it together with the identities that peers can have;
// Table.Lookup answers for one flow with at most two longest-prefix look-ups,
// the peer's identity and any identity, of which the higher precedence wins.
// State keeps a table current while identities and rules come and go; Table.Walk
// says for one flow why each rule did or did not decide it.
//
// Everything here is a pure function of its arguments. The order of the input
// never matters: equal sets of rules and identities give equal bytes.
package datapath
