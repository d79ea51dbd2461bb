package streams

import (
	"errors"
	"fmt"
	"syscall"
)

// notLocked says why a store directory could not be locked.
func notLocked(dir string, err error) error {
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return fmt.Errorf("store directory %s is in use by another process; stop it or choose another directory: %w", dir, err)
	}
	return fmt.Errorf("store directory %s cannot be written; give it to this user on a file system that is mounted for writing, or choose another directory: %w", dir, err)
}

// LockFile locks a file for this process, and makes it first where it is
// missing. The error is syscall.EWOULDBLOCK when another process has the lock; a
// process that dies loses it. On systems without flock nobody is kept out.
func LockFile(path string) (release func(), err error) {
	l, err := lockDir(path)
	if err != nil {
		return nil, err
	}
	return l.release, nil
}

// FileLocked reports whether a process, this one too, has the lock of a file. It asks by taking
// a lock that others may share, so who wants one for itself meanwhile is refused it. On systems
// without flock nobody has one.
func FileLocked(path string) (bool, error) { return locked(path) }
