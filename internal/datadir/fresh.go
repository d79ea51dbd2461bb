package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/streams"
)

// restoring is where a data directory is made that is not to be used before all of
// it is there.
func (d Dir) restoring() Dir { return Dir(d.join("restoring")) }

// parts are what is made there, in the order in which it gets its place. The log
// comes last: a directory without one is not served as a plane that has lost it.
func (d Dir) parts() []string { return []string{d.SigningKey(), d.Keys(), d.Store(), d.NATS()} }

// Fresh is a data directory in the making. No plane starts on it before Finish.
type Fresh struct{ dir Dir }

// MakeFresh begins one in a directory that is empty or new. One that was cut off is
// begun anew; anything else that is there is an *UnusableError.
func MakeFresh(d Dir) (*Fresh, error) {
	entries, err := os.ReadDir(string(d))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, &UnusableError{"--data", err}
	}
	f := &Fresh{d}
	if f.dir.unfinished() {
		if err := f.wipe(); err != nil {
			return nil, &UnusableError{"--data", err}
		}
	} else if len(entries) > 0 {
		return nil, &UnusableError{"--data", fmt.Errorf("%s is not empty: a log is put into a new directory, or an empty one", d)}
	}
	if err := os.MkdirAll(string(d.restoring()), 0o700); err != nil {
		return nil, &UnusableError{"--data", err}
	}
	return f, nil
}

// unfinished reports whether a directory is in the making. The log comes last: where
// it is in its place, and nothing is left to get one, all of it is there.
func (d Dir) unfinished() bool {
	left, err := os.ReadDir(string(d.restoring()))
	if err != nil {
		return false
	}
	_, err = os.Lstat(d.NATS())
	return len(left) > 0 || err != nil
}

// wipe removes what was made before a crash, but nothing that a plane may have served.
func (f *Fresh) wipe() error {
	if _, err := os.Lstat(f.dir.NATS()); err == nil {
		return fmt.Errorf("%s and %s are both there: one of them was not made by a restore; remove what is not needed", f.dir.restoring(), f.dir.NATS())
	}
	for _, path := range append(f.dir.parts(), string(f.dir.restoring())) {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

// Dir is where its parts are made.
func (f *Fresh) Dir() Dir { return f.dir.restoring() }

// Finish puts what was made in its place: on the disk, and marked as the log's own
// place, so that the first start does not take it for a backup that was put back.
func (f *Fresh) Finish() error {
	made := f.dir.restoring()
	if err := streams.MarkPlace(made.NATS()); err != nil {
		return err
	}
	if err := syncTree(string(made)); err != nil {
		return fmt.Errorf("write %s: %w", made, err)
	}
	for _, to := range f.dir.parts() {
		from := filepath.Join(string(made), filepath.Base(to))
		if err := os.Rename(from, to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return errors.Join(os.Remove(string(made)), artifact.SyncDir(string(f.dir)))
}

// syncTree has every file and directory below a path on the disk.
func syncTree(root string) error {
	return filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return artifact.SyncDir(path)
	})
}
