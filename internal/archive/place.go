package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/fault"
)

// place is where the files of an archive lie: a directory, or a bucket.
type place interface {
	fmt.Stringer
	// names are those of its files, in order: fs.ErrNotExist where there is no such place.
	names() ([]string, error)
	// open opens a file to be read: fs.ErrNotExist.
	open(name string) (io.ReadCloser, error)
	// create begins a file that has its name once it is kept, and all of it is stored.
	create(name string) (part, error)
	// lock makes the place where it is absent, and keeps others from writing there. busy is
	// the error where one does. What a crash left of a writer is removed.
	lock(busy error) (release func(), err error)
}

// part is a file that is being written.
type part interface {
	io.Writer
	keep() error
	drop() error
}

// elsewhere is a URL of a store that is not spoken to here, or one that lacks a slash. A directory
// of that name would be made, and who asked would believe the archive to be in the store.
var elsewhere = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:/`)

// placeOf is the place of an archive, and the name of its only file where path names one.
func placeOf(ctx context.Context, path string) (at place, only string, err error) {
	if InBucket(path) {
		return openBucket(ctx, path)
	}
	if elsewhere.MatchString(path) {
		return nil, "", fmt.Errorf("%s is neither a directory nor s3://BUCKET/PREFIX: an archive is in one of these", path)
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return directory(path), "", nil
	}
	if err != nil {
		return nil, "", err
	}
	if !info.IsDir() {
		return directory(filepath.Dir(path)), filepath.Base(path), nil
	}
	return directory(path), "", nil
}

// directory is a place on a disk.
type directory string

func (d directory) String() string { return string(d) }

func (d directory) names() (names []string, err error) {
	entries, err := os.ReadDir(string(d))
	for _, e := range entries { // by name
		names = append(names, e.Name())
	}
	return names, err
}

func (d directory) open(name string) (io.ReadCloser, error) {
	return openRegular(filepath.Join(string(d), name))
}

func (d directory) lock(busy error) (release func(), err error) {
	if release, err = lock(string(d), busy); err != nil {
		return nil, err
	}
	if err = d.clean(); err != nil {
		release()
	}
	return release, err
}

// clean removes what a crash left.
func (d directory) clean() error {
	names, err := d.names()
	for _, name := range names {
		if whole, ok := strings.CutSuffix(name, unfinished); ok {
			if _, ok := firstOf(whole); ok || isOrigin(whole) {
				err = errors.Join(err, os.Remove(filepath.Join(string(d), name)))
			}
		}
	}
	return err
}

func (d directory) create(name string) (part, error) {
	f, err := os.OpenFile(filepath.Join(string(d), name+unfinished), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	return &file{f}, nil
}

// file is a part of a directory. A crash leaves whole files, and at most one that no
// reader looks at.
type file struct{ *os.File }

func (f *file) keep() error {
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	fault.Pass(fault.ArchiveBefore)
	name := strings.TrimSuffix(f.Name(), unfinished)
	err := errors.Join(os.Rename(f.Name(), name), artifact.SyncDir(filepath.Dir(name)))
	fault.Pass(fault.ArchiveAfter)
	return err
}

func (f *file) drop() error { return errors.Join(f.Close(), os.Remove(f.Name())) }
