//go:build unix

package artifact

import (
	"io/fs"
	"syscall"
)

// ownerOf is the user that owns a file, -1 when that is not known.
func ownerOf(info fs.FileInfo) int {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid)
	}
	return -1
}
