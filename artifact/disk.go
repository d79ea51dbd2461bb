package artifact

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrNotRegular is of what is read or replaced as a file and is none, such as a pipe or a device.
var ErrNotRegular = errors.New("not a regular file")

// ReadFile reads a whole file, but no pipe, which would wait for who writes to it: ErrNotRegular.
func ReadFile(name string) ([]byte, error) {
	if err := regular("read", name); err != nil {
		return nil, err
	}
	return os.ReadFile(name)
}

// regular is an error where a path, once links are followed, is no regular file, or nothing.
func regular(op, path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: op, Path: path, Err: ErrNotRegular}
	}
	return err
}

// WriteFile puts a file of this content and mode in the place of the file that was
// at path, if any, and returns once it is on disk. After a crash the file is the old
// one or the new one. What is no regular file, such as /dev/null, is not replaced: the system
// needs it.
func WriteFile(path string, content []byte, mode fs.FileMode) error {
	if err := regular("replace", path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dir := filepath.Dir(path)
	temp, err := writeTemp(dir, content, mode)
	if err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return SyncDir(dir)
}

// CreateFile makes a file of this content and mode, on disk when it returns. One
// that is there already is fs.ErrExist and stays as it is. After a crash there is
// no file or a whole one.
func CreateFile(path string, content []byte, mode fs.FileMode) error {
	dir := filepath.Dir(path)
	temp, err := writeTemp(dir, content, mode)
	if err != nil {
		return err
	}
	defer os.Remove(temp)
	// A link, unlike a rename, never replaces the file another process made.
	if err := os.Link(temp, path); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return err
		}
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("create %s: %w", path, fs.ErrExist)
		}
		if err := os.Rename(temp, path); err != nil { // no hard links here
			return err
		}
	}
	return SyncDir(dir)
}

// Torn begins the name of a file that was being written when a process died.
const Torn = ".edict-"

// writeTemp writes a file that is on disk when it returns, and leaves none
// where it fails.
func writeTemp(dir string, content []byte, mode fs.FileMode) (name string, err error) {
	f, err := os.CreateTemp(dir, Torn+"*")
	if err != nil {
		return "", err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// SyncDir has what was done to the names in a directory, or to the content of a
// file, outlive a crash.
func SyncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
