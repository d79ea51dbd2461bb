// Package artifact is the signed paper that everything a node stores and trusts
// comes in: its canonical form, its signature or one signature for a run of
// them with a proof in each (docs/design.md#delivery), the set of keys a verifier
// trusts, and the rule that no version falls back (docs/design.md#artifacts). A Store
// is what a node accepted of plane "mgmt", and judges the next set. It also
// signs the notices that nodes receive over SSE, in the dialect their agents
// verify.
//
// What a payload means is the business of those who make it; only the payload
// of plane "policy" has its shape here, because both ends of the node stream
// need it.
package artifact
