// Package integrity finds out when the log is no longer the one that was
// folded: when it lost its tail, has a hole, was changed, exchanged, or put back
// from a backup.
//
// A Witness is what this process knows of stream EDICT_CHAIN, which keeps the
// chain hash of the log at every thousandth event. A Monitor runs the fold,
// compares it with each link of the witness as it is written, lengthens the
// witness, asks the log after every loss of the connection whether it still is
// the same, and reads all of it again once a day. A Comparer holds the links of
// other workers against the fold's own. Whoever of them finds damage raises the
// Alarm, which stops the fold: what was folded so far stays and is served, and
// nothing is folded on top of it.
//
// Verify reads the whole log for an operator, and Report.Accept takes a damaged
// one as it is for the truth (docs/recovery.md).
//
// The hash itself, and that no event is folded before the link above it
// confirmed it, are the business of package projector; how links are stored is
// that of package streams.
package integrity
