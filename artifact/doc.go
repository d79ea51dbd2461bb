// Package artifact is the signed envelope of everything that a node stores and
// trusts: its canonical form, its signature, or one signature for a run of envelopes
// with a proof in each (docs/design.md#delivery), the set of keys that a verifier
// trusts, and the rule that a version never falls (docs/design.md#artifacts). A Store is
// what a node has accepted of plane "mgmt", and decides about the next set. The package
// also signs the notices that nodes receive over SSE, in the dialect that their agents
// verify.
//
// What a payload means is decided where it is made. Only the payloads of plane
// "policy" are defined here, because the plane and the node both need them.
package artifact
