package main

import (
	"fmt"
	"os"
	"runtime/metrics"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// A control group ends a process that takes more than its limit. groupSpare is
// the share of it, in percent, that is kept for what comes between two looks,
// and for pages of files that are being written.
const groupSpare = 10

// roomInGroup says what the collector may take of the process's control group:
// the limit, less a spare share and less what others take that the
// collector does not count, above all the store's cache and memtables. 0: there is no limit.
// A container's limit is read once; it does not change while a container runs.
func roomInGroup() func() int64 {
	limit, err := memlimit.FromCgroup()
	if err != nil {
		return func() int64 { return 0 } // no control groups here, or none with a limit
	}
	return func() int64 { return roomBeside(int64(limit), uncounted()) }
}

// roomBeside is what a limit leaves beside so many bytes. The collector would
// do nothing else if it got less than a quarter of the limit.
func roomBeside(limit, others int64) int64 {
	return max(limit-limit*groupSpare/100-others, limit/4)
}

// uncounted is the resident memory of this process that the collector's limit
// does not count, in bytes, without what is mapped from files; 0 where the system
// does not tell.
func uncounted() int64 {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, resident, shared int64 // in pages
	if _, err := fmt.Sscan(string(statm), &size, &resident, &shared); err != nil {
		return 0
	}
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	counted := int64(s[0].Value.Uint64() - s[1].Value.Uint64())
	return max(0, (resident-shared)*int64(os.Getpagesize())-counted)
}
