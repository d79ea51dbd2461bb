//go:build unix

package plane

import "syscall"

// openFiles is how many files the process may have open; 0: any number.
func openFiles() int {
	var r syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r) != nil || r.Cur > 1<<30 {
		return 0
	}
	return int(r.Cur) //nolint:gosec // checked above
}
