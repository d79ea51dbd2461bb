// Package compiler turns a policy into what a node applies: the
// canonical rule list of a revision, its bytes and their fingerprint, and the
// merge of a node's rows into one block.
//
// Everything here is a pure function of its arguments, byte for byte: the
// Determinism Contract of 000-policy-compiler. Two replicas that compile the
// same revision produce the same payload, so a node can compare fingerprints
// and skip. Package projector decides which nodes a revision reaches.
package compiler
