package artifact

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteFile puts a file of this content and mode in the place of whatever was
// at path, and returns once it is on disk. After a crash the file is the old
// one or the new one.
func WriteFile(path string, content []byte, mode fs.FileMode) error {
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

// writeTemp writes a file that is on disk when it returns, and leaves none
// where it fails.
func writeTemp(dir string, content []byte, mode fs.FileMode) (name string, err error) {
	f, err := os.CreateTemp(dir, ".edict-*")
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
