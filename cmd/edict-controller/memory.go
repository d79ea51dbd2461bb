package main

import (
	"os"
	"runtime/debug"
)

// groupSpare is the share of a control group's limit, in percent, that is kept for what the
// collector does not count.
const groupSpare = 10

// staysWithinGroup has the collector keep to the limit of the process's control group, unless
// the operator gave it one with GOMEMLIMIT. Pods and policies of a large cluster are read at
// once at the start, and a group ends a process that takes more. (The setter of memlimit takes
// an empty GOMEMLIMIT for a limit.)
func staysWithinGroup(limit func() (uint64, error)) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	if n, err := limit(); err == nil { // otherwise there are no control groups, or none with a limit
		debug.SetMemoryLimit(int64(n / 100 * (100 - groupSpare))) //nolint:gosec // of memory there is
	}
}
