package streams

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// filesHaveIdentity: a file can be distinguished from a copy of it.
const filesHaveIdentity = true

// identityOf is what no copy of a file or directory has: its inode and when it
// was made, where the file system knows. The device is no part of it: its number
// changes with the order in which disks are found.
func identityOf(path string) (id string, known bool) {
	var s unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_INO|unix.STATX_BTIME, &s); err != nil {
		return "", false
	}
	if s.Mask&unix.STATX_BTIME == 0 {
		s.Btime = unix.StatxTimestamp{}
	}
	return fmt.Sprintf("%d %d.%09d", s.Ino, s.Btime.Sec, s.Btime.Nsec), true
}
