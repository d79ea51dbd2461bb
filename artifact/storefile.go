package artifact

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// Files is what keeping a file asks of a file system. A test stops between its
// steps.
type Files interface {
	// ReadFile is fs.ErrNotExist where there is no such file.
	ReadFile(name string) ([]byte, error)
	// WriteFile writes a new file; its content need not be on disk yet.
	WriteFile(name string, content []byte) error
	// SyncDir returns once what has that name is on disk: the content of a file,
	// the names in a directory.
	SyncDir(name string) error
	Rename(from, to string) error
	// RemoveAll removes what has that name, if anything has.
	RemoveAll(name string) error
}

// OtherPinError is a store that began with another pin than the node has now.
type OtherPinError struct{ Path string }

// Error says what to do.
func (e *OtherPinError) Error() string {
	return e.Path + " began with another trust pin than the one that is there now; put that back, or remove " + e.Path + " to trust the new one from scratch"
}

// OpenStore reads the store that was kept at path. Where there is none, the node
// trusts the pin alone.
func OpenStore(files Files, path string, pin Pin) (*Store, error) {
	text, err := files.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return NewStore(pin), nil
	}
	if err != nil {
		return nil, err
	}
	s, err := ParseStore(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; without it nothing tells old from new, so put back the file, or remove it to begin with the trust pin again", path, err)
	}
	if s.pin != pin.fingerprint() {
		return nil, &OtherPinError{path}
	}
	return s, nil
}

// Keep writes the store to path, and returns once it is on disk. After a crash
// the file is the old one or the new one.
func (s *Store) Keep(files Files, path string) error {
	text, err := s.JSON()
	if err != nil {
		return err
	}
	return ReplaceFile(files, path, text)
}

// ReplaceFile puts a file in the place of what has that name, and returns once
// it is on disk. After a crash the file is the old one or the new one. Whoever
// calls it for one path does so one at a time.
func ReplaceFile(files Files, path string, content []byte) error {
	next := Next(path)
	if err := files.RemoveAll(next); err != nil {
		return err
	}
	if err := files.WriteFile(next, content); err != nil {
		return err
	}
	if err := files.SyncDir(next); err != nil {
		return err
	}
	if err := files.Rename(next, path); err != nil {
		return err
	}
	return files.SyncDir(filepath.Dir(path))
}

// Next is where ReplaceFile writes what becomes the file. A crash may leave it there.
func Next(path string) string { return path + ".next" }
