// Package policy is the domain of Edict: policies and their revisions, rules,
// selectors, nodes, and the events that change them. Its values parse, print,
// compare and check themselves; nothing here does I/O or knows the time.
//
// A value that came out of this package's parsers obeys every rule of the
// domain (docs/design.md#the-domain): CIDRs are masked and of one family, ports stand
// where the protocol has them, labels are sorted and well formed. Whether an
// event is accepted into the world is the fold's business, not ours.
package policy
