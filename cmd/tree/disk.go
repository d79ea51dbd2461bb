package tree

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/artifact"
)

// Disk is the file system of the machine.
type Disk struct{}

// Exists is false where a path's parent is missing too.
func (Disk) Exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// IsDir is false where there is nothing.
func (Disk) IsDir(path string) (bool, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.IsDir(), err
}

// ReadDir lists a directory by name.
func (Disk) ReadDir(path string) ([]fs.DirEntry, error) { return os.ReadDir(path) }

// SameFile is false where either cannot be looked at.
func (Disk) SameFile(a, b string) bool {
	one, err1 := os.Lstat(a)
	two, err2 := os.Lstat(b)
	return err1 == nil && err2 == nil && os.SameFile(one, two)
}

// ReadFile reads a whole file, but no pipe.
func (Disk) ReadFile(name string) ([]byte, error) { return artifact.ReadFile(name) }

// Sub is what is below a directory.
func (Disk) Sub(dir string) fs.FS { return os.DirFS(dir) }

// MkdirAll makes directories that everybody may read: artifacts are signed, not
// secret.
func (Disk) MkdirAll(path string) error { return os.MkdirAll(path, 0o755) }

// WriteFile refuses a file that exists.
func (Disk) WriteFile(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

// Link makes a hard link.
func (Disk) Link(from, to string) error { return os.Link(from, to) }

// SyncAll asks the file system as a whole where it can be asked, since tens of
// thousands of files one by one take minutes.
func (d Disk) SyncAll(dir string) error {
	if err := syncFS(dir); !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return d.SyncDir(path)
	})
}

// SyncDir syncs what has that name, a file too.
func (Disk) SyncDir(name string) error { return artifact.SyncDir(name) }

// Rename replaces nothing but an empty directory.
func (Disk) Rename(from, to string) error { return os.Rename(from, to) }

// Exchange works on Linux, where the file system does.
func (Disk) Exchange(a, b string) error { return exchange(a, b) }

// RemoveAll removes a tree, if there is one, what is directly in it several at
// once. Of a link it removes the link.
func (d Disk) RemoveAll(path string) error {
	var entries []fs.DirEntry
	if dir, _ := d.IsDir(path); dir {
		entries, _ = os.ReadDir(path) // one that cannot be read fails below
	}
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, e := range entries {
		g.Go(func() error { return os.RemoveAll(filepath.Join(path, e.Name())) })
	}
	return errors.Join(g.Wait(), os.RemoveAll(path))
}
