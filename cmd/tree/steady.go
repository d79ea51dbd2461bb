package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// Steady has a tree read as a whole: where a compile put another one in the place of dir
// meanwhile, read is called again, with that. The tree that was replaced is written to by the
// next compile, so that what was read of it may be of two, or lack nodes.
func Steady(dir string, read func(fsys fs.FS) error) error {
	const tries = 10
	for try := range tries {
		root, err := os.OpenRoot(dir)
		switch {
		case err == nil:
			var steady bool
			if steady, err = readSteadily(root, dir, read); steady {
				return err
			}
		case try == 0 || !errors.Is(err, fs.ErrNotExist):
			return err
		}
		// Where names cannot be exchanged there is no tree for a moment.
		time.Sleep(time.Duration(try) * 10 * time.Millisecond)
	}
	return fmt.Errorf("%s was replaced %d times while it was read: wait for the compiles, and try again", dir, tries)
}

// readSteadily reads what root is, and reports whether dir is still that.
func readSteadily(root *os.Root, dir string, read func(fsys fs.FS) error) (steady bool, err error) {
	defer root.Close()
	began, err := root.Stat(".")
	if err != nil {
		return true, err
	}
	err = read(root.FS())
	now, gone := os.Stat(dir)
	return gone == nil && os.SameFile(began, now), err
}
