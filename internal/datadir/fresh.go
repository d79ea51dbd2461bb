package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/streams"
)

// restoring is where a data directory is made that is not to be used before all of
// it is there.
func (d Dir) restoring() Dir { return Dir(d.join("restoring")) }

// parts are what is made there, in the order in which it gets its place. The log
// comes last: a directory without one is not served as a plane that has lost it.
func (d Dir) parts() []string { return []string{d.SigningKey(), d.Keys(), d.Store(), d.NATS()} }

// Files of restoring that get no place.
const (
	restoringLock  = ".lock"
	restoringMoves = ".moves" // the names of the parts, once all of them are made
)

// Fresh is a data directory in the making. No plane starts on it before Finish.
type Fresh struct {
	dir     Dir
	release func() // the lock
}

// MakeFresh begins one in a directory that is empty or new, and keeps others from making
// one there until Close: *InUseError. One that was cut off is begun anew; anything else
// that is there is an *UnusableError.
func MakeFresh(d Dir) (*Fresh, error) {
	if err := d.Free(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(string(d.restoring()), 0o700); err != nil {
		return nil, &UnusableError{"--data", err}
	}
	lock := d.restoring().join(restoringLock)
	release, err := streams.LockFile(lock)
	if err = InUse(err, "--data", string(d)); err != nil {
		return nil, err
	}
	// Who had the lock before may have finished meanwhile.
	if _, err = os.Lstat(lock); err == nil {
		err = d.Free()
	}
	f := &Fresh{d, release}
	if err == nil {
		err = f.wipe()
	}
	if err != nil {
		release()
		return nil, err
	}
	return f, nil
}

// Free refuses a directory that has anything but what was left in the making.
func (d Dir) Free() error {
	entries, err := os.ReadDir(string(d))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &UnusableError{"--data", err}
	}
	ours := []string{filepath.Base(string(d.restoring())), "lost+found"} // a file system's own
	if d.unfinished() {
		ours = append(ours, d.moved()...)
	}
	for _, e := range entries {
		if !slices.Contains(ours, e.Name()) {
			return &UnusableError{"--data", fmt.Errorf("%s is not empty, it has %s: a log is put into a new directory, or an empty one", d, e.Name())}
		}
	}
	return nil
}

// unfinished reports whether a directory is in the making. The log comes last: where
// it is in its place, and nothing is left to get one, all of it is there.
func (d Dir) unfinished() bool {
	left, err := os.ReadDir(string(d.restoring()))
	if err != nil {
		return false
	}
	_, err = os.Lstat(d.NATS())
	return err != nil || slices.ContainsFunc(left, func(e fs.DirEntry) bool { return e.Name() != restoringLock && e.Name() != restoringMoves })
}

// moved are the parts that a Finish which was cut off put in their place, but never a
// log, which a plane may have served.
func (d Dir) moved() (names []string) {
	text, err := os.ReadFile(d.restoring().join(restoringMoves))
	if err != nil {
		return nil
	}
	for _, name := range strings.Fields(string(text)) {
		if _, err := os.Lstat(d.restoring().join(name)); err != nil && d.join(name) != d.NATS() {
			names = append(names, name)
		}
	}
	return names
}

// wipe removes what was made before a crash, but nothing that somebody else put there.
func (f *Fresh) wipe() error {
	for _, name := range f.dir.moved() {
		if err := os.RemoveAll(f.dir.join(name)); err != nil {
			return &UnusableError{"--data", err}
		}
	}
	left, err := os.ReadDir(string(f.dir.restoring()))
	for _, e := range left {
		if e.Name() != restoringLock {
			err = errors.Join(err, os.RemoveAll(f.dir.restoring().join(e.Name())))
		}
	}
	if err != nil {
		return &UnusableError{"--data", err}
	}
	return nil
}

// Dir is where its parts are made.
func (f *Fresh) Dir() Dir { return f.dir.restoring() }

// Close lets others make one there. What was not finished is left.
func (f *Fresh) Close() { f.release() }

// Finish puts what was made in its place: on the disk, and marked as the log's own
// place, so that the first start does not take it for a backup that was put back.
func (f *Fresh) Finish() error {
	made := f.dir.restoring()
	if err := f.dir.Free(); err != nil { // somebody put a key there meanwhile
		return err
	}
	if err := streams.MarkPlace(made.NATS()); err != nil {
		return err
	}
	names, err := f.noteMoves()
	if err != nil {
		return err
	}
	if err := syncTree(string(made)); err != nil {
		return fmt.Errorf("write %s: %w", made, err)
	}
	for _, name := range names {
		if err := os.Rename(made.join(name), f.dir.join(name)); err != nil {
			return err
		}
		if err := artifact.SyncDir(string(f.dir)); err != nil { // in this order on the disk, too
			return err
		}
	}
	return errors.Join(os.RemoveAll(string(made)), artifact.SyncDir(string(f.dir)), artifact.SyncDir(filepath.Dir(filepath.Clean(string(f.dir)))))
}

// noteMoves notes which parts get their place now.
func (f *Fresh) noteMoves() (names []string, err error) {
	for _, part := range f.dir.parts() {
		name := filepath.Base(part)
		if _, err := os.Lstat(f.dir.restoring().join(name)); err == nil {
			names = append(names, name)
		}
	}
	return names, artifact.WriteFile(f.dir.restoring().join(restoringMoves), []byte(strings.Join(names, "\n")+"\n"), 0o600)
}

// syncTree has every file and directory below a path on the disk, but for what goes meanwhile.
func syncTree(root string) error {
	return filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			err = artifact.SyncDir(path)
		}
		if path != root && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}
