package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// A control group ends a process that takes more than its limit. groupSpare is
// the share of it, in percent, that is kept for what comes between two looks,
// and for pages of files that are being written.
const groupSpare = 10

// roomInGroup says what the collector may take of the process's control group:
// the limit, less a spare share and less what is in the group beside what the collector
// counts: the store's cache and memtables, and other processes, such as commands that are run in
// a worker's container. 0: there is no limit.
// A container's limit is read once; it does not change while a container runs.
func roomInGroup() func() int64 {
	limit, err := memlimit.FromCgroup()
	if err != nil {
		return func() int64 { return 0 } // no control groups here, or none with a limit
	}
	group, _ := os.ReadFile("/proc/self/cgroup")
	stat := groupStat(string(group), "/sys/fs/cgroup")
	return func() int64 { return roomBeside(int64(limit), uncounted(stat)) }
}

// roomBeside is what a limit leaves beside so many bytes. The collector would
// do nothing else if it got less than a quarter of the limit.
func roomBeside(limit, others int64) int64 {
	return max(limit-limit*groupSpare/100-others, limit/4)
}

// groupStat finds the file that says what a process's group holds, by what
// /proc/self/cgroup has and where control groups are mounted; "": there is none.
func groupStat(own, mounted string) string {
	for line := range strings.Lines(own) {
		_, line, _ = strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, _ := strings.Cut(line, ":")
		root := mounted // of version 2
		if controllers != "" {
			if !slices.Contains(strings.Split(controllers, ","), "memory") {
				continue
			}
			root = filepath.Join(mounted, "memory")
		}
		// A container may see its own group alone, at the root, by a name of the host.
		for _, dir := range []string{filepath.Join(root, group), root} {
			if stat := filepath.Join(dir, "memory.stat"); anonymous(stat) > 0 {
				return stat
			}
		}
	}
	return ""
}

// anonymous is what a group holds that is of no file, in bytes; 0: its file does not say.
func anonymous(stat string) (bytes int64) {
	text, _ := os.ReadFile(stat)
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "anon" || name == "total_rss" { // of version 2, and of version 1
			bytes, _ = strconv.ParseInt(value, 10, 64)
			return bytes
		}
	}
	return 0
}

// uncounted is the memory of this process's group, or else of this process, that the
// collector's limit does not count, in bytes, without what is of files; 0 where the
// system does not tell.
func uncounted(stat string) int64 {
	held := anonymous(stat)
	if held == 0 {
		held = ownAnonymous()
	}
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return max(0, held-int64(s[0].Value.Uint64()-s[1].Value.Uint64())) //nolint:gosec // of memory there is
}

// ownAnonymous is what this process holds that is of no file, in bytes.
func ownAnonymous() int64 {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, resident, shared int64 // in pages
	if _, err := fmt.Sscan(string(statm), &size, &resident, &shared); err != nil {
		return 0
	}
	return (resident - shared) * int64(os.Getpagesize())
}
