// Package compiler turns what a policy says into what a node applies: the
// canonical rule list of a revision, its bytes and their fingerprint, and the
// merge of a node's rows into one block.
//
// Everything here is a pure function of its arguments, byte for byte: the
// Determinism Contract of 000-policy-compiler. Two replicas that compile the
// same revision produce the same payload, so a node can compare fingerprints
// and skip. Which nodes a revision reaches is the projector's business, not
// ours.
package compiler
