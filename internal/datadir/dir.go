package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/edictdev/edict/internal/streams"
)

// Dir is the path of a data directory. It need not be there.
type Dir string

func (d Dir) join(name string) string { return filepath.Join(string(d), name) }

// Store is where the read model is.
func (d Dir) Store() string { return d.join("store") }

// NATS is where the embedded server keeps the log and all else.
func (d Dir) NATS() string { return d.join("nats") }

// SyncNATS has all on the disk that the embedded server, which may run, has written.
func (d Dir) SyncNATS() error { return syncTree(d.NATS()) }

// SigningKey is the file of the key that the plane makes itself.
func (d Dir) SigningKey() string { return d.join("signing.key") }

// Keys is the directory of other keys that the plane made.
func (d Dir) Keys() string { return d.join("keys") }

// Checkpoint is where a checkpoint is copied to before it is sent.
func (d Dir) Checkpoint() string { return d.Store() + ".checkpoint" }

// Compaction is where the origin of a log is made, and proved.
func (d Dir) Compaction() string { return d.Store() + ".origin" }

// Past is where read models of the past are folded.
func (d Dir) Past() string { return d.join("past") }

// fresh is where a read model is rebuilt.
func (d Dir) fresh() string { return d.Store() + ".new" }

// aside is where a read model of a layout goes that is not to be used: store.old-1,
// or store.old-1.2 and so on.
func (d Dir) aside(schema uint32) (string, error) {
	base := d.Store() + ".old-" + strconv.FormatUint(uint64(schema), 10)
	for n, name := 2, base; ; n++ {
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			return name, nil
		} else if err != nil {
			return "", err
		}
		name = fmt.Sprintf("%s.%d", base, n)
	}
}

// Existing is the directory, or the nearest above it that is there.
func (d Dir) Existing() string {
	dir := string(d)
	for {
		if _, err := os.Stat(dir); err == nil || filepath.Dir(dir) == dir {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// Check says why the directory cannot be used; it is made when it is absent. The
// error is an *UnusableError.
func (d Dir) Check() error {
	info, err := os.Stat(string(d))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return &UnusableError{"--data", err}
	case !info.IsDir():
		return &UnusableError{"--data", fmt.Errorf("%s is not a directory; name one, it is made when absent", d)}
	}
	return writable(string(d))
}

// writable says why nothing can be written to a directory.
func writable(dir string) error {
	f, err := os.CreateTemp(dir, ".edict-*")
	if err == nil {
		err = errors.Join(f.Close(), os.Remove(f.Name()))
	}
	switch {
	case errors.Is(err, syscall.EROFS):
		return &UnusableError{"--data", fmt.Errorf("%s is on a file system that is mounted read-only; mount it for writing, and see the system's log why it is not: %w", dir, err)}
	case errors.Is(err, fs.ErrPermission):
		return &UnusableError{"--data", fmt.Errorf("this user may not write to %s; give it the directory, or name another: %w", dir, err)}
	}
	return nil // a full disk is found by its free bytes
}

// CheckLock says whether another process serves the log in the directory:
// *InUseError.
func (d Dir) CheckLock() error {
	err := InUse(streams.CheckDir(d.NATS()), "--data", string(d))
	if err != nil && !errors.As(err, new(*InUseError)) {
		return &UnusableError{"--data", err}
	}
	return err
}

// Make makes the directory where it is absent.
func (d Dir) Make() error {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return &UnusableError{"--data", err}
	}
	return nil
}

// absent reports whether there is nothing at path; an empty directory is made
// nothing.
func absent(path string) bool {
	info, err := os.Lstat(path)
	if err == nil && info.IsDir() {
		err = os.Remove(path) // fails where there is something in it
		return err == nil
	}
	return errors.Is(err, fs.ErrNotExist)
}

// UnusableError is a file or directory that was given and cannot be used.
type UnusableError struct {
	What string // as the command line calls it
	Err  error
}

// Error says which, and why.
func (e *UnusableError) Error() string { return e.What + ": " + e.Err.Error() }

// Unwrap is the reason.
func (e *UnusableError) Unwrap() error { return e.Err }

// InUseError means that another process has what this one needs.
type InUseError struct{ Detail string }

// Error says what is in use and what to do.
func (e *InUseError) Error() string { return e.Detail }

// InUse makes the system's error of a taken address or directory, which flag
// gave, an *InUseError that says what to do; any other error it passes on.
func InUse(err error, flag, what string) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return &InUseError{fmt.Sprintf("%s is in use by another process; stop it, or choose another with %s (port 0 takes a free one)", what, flag)}
	case errors.Is(err, syscall.EWOULDBLOCK):
		return &InUseError{fmt.Sprintf("data directory %s is in use by another process; stop it, or choose another with --data", what)}
	}
	return err
}
