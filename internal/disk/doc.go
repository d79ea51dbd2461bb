// Package disk guards the disk below a data directory: the parts of a plane must
// not meet its end in the wrong order. Authors are refused first, then whoever
// writes to the log directly, and what is left is for folding and announcing
// what was accepted. What met a full disk all the same waits (the read model) or
// is restarted after it (the log's store). How fast the log fills it is measured
// here, too.
//
// It knows no limits of tenants: how much of the log a project may take is not
// asked here.
package disk
