package tree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/artifact"
)

// FS is what writing a tree asks of a file system. A test counts its steps and
// stops before each.
type FS interface {
	Exists(path string) (bool, error)
	// IsDir says whether a directory has that name itself, and no link to one.
	IsDir(path string) (bool, error)
	MkdirAll(path string) error
	// ReadDir lists a directory by name.
	ReadDir(path string) ([]fs.DirEntry, error)
	// SameFile says whether two names are of one file; no link is followed.
	SameFile(a, b string) bool
	// WriteFile writes a new file; the content need not be on disk yet.
	WriteFile(path string, content []byte) error
	// Link gives a file a second name; where that cannot be, any error will do.
	Link(from, to string) error
	// SyncAll returns once everything below a directory is on disk.
	SyncAll(dir string) error
	// SyncDir returns once the names in a directory are on disk.
	SyncDir(dir string) error
	Rename(from, to string) error
	// Exchange swaps two names in one step, or is errors.ErrUnsupported.
	Exchange(a, b string) error
	RemoveAll(path string) error
}

// Names beside the tree: where the next one grows, from the one before if that was
// kept, and where the last one waits on file systems that cannot exchange names.
const (
	nextSuffix = ".next"
	lastSuffix = ".last"
)

// Next is where the tree grows that Swap puts at out.
func Next(out string) string { return out + nextSuffix }

// Recover ends what a crash interrupted: where names cannot be exchanged, the
// old tree may have been moved away and the new one not yet put in its place.
// Call it before reading a tree.
func Recover(fsys FS, out string) error {
	there, err := fsys.Exists(out)
	if err != nil || there {
		return err
	}
	last, err := fsys.IsDir(out + lastSuffix)
	if err != nil || !last {
		return err
	}
	if err := fsys.Rename(out+lastSuffix, out); err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(out))
}

// Write makes the plan's tree beside out and swaps the two. After an error or a
// crash, out is the old tree or the new one; what else is left is cleared away, or
// used, by the next Write. Of a large tree the old one stays beside the new, for the
// next Write to begin with.
func (p *Plan) Write(ctx context.Context, fsys FS, out string, signer *artifact.Signer, at time.Time) error {
	if err := Recover(fsys, out); err != nil {
		return err
	}
	if err := syncNames(fsys, out); err != nil {
		return err
	}
	if err := fsys.RemoveAll(out + lastSuffix); err != nil {
		return fmt.Errorf("clear what an interrupted compile left: %w", err)
	}
	there, err := p.openSpare(fsys, out)
	if err != nil {
		return fmt.Errorf("prepare the place of the next tree: %w", err)
	}
	next := Next(out)
	linked, err := p.grow(ctx, fsys, out, there, signer, at)
	if err == nil {
		err = fsys.SyncAll(next)
	}
	if err != nil {
		return errors.Join(err, fsys.RemoveAll(next))
	}
	old, err := swap(fsys, out)
	if err != nil {
		return err
	}
	return p.retire(fsys, out, old, linked)
}

// syncNames returns once the names of the trees are on disk. A process that was killed
// may have given them without: on disk, what lies beside the tree is in its place
// then, and must not be touched.
func syncNames(fsys FS, out string) error {
	for _, beside := range []string{out + nextSuffix, out + lastSuffix} {
		if there, err := fsys.Exists(beside); err != nil || there {
			return errors.Join(err, fsys.SyncDir(filepath.Dir(out)))
		}
	}
	return nil
}

// Clear removes what a crash left beside out. Call it after Recover.
func Clear(fsys FS, out string) error {
	if err := syncNames(fsys, out); err != nil {
		return err
	}
	return errors.Join(fsys.RemoveAll(out+nextSuffix), fsys.RemoveAll(out+lastSuffix))
}

// grow writes every file of the new tree that the spare does not have. What stays as
// it is gets a second name, since nobody changes a file of a tree in its place;
// linked says whether all of that could.
func (p *Plan) grow(ctx context.Context, fsys FS, out string, there spare, signer *artifact.Signer, at time.Time) (linked bool, err error) {
	var copied atomic.Bool
	g, first := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, s := range p.sets {
		if first.Err() != nil {
			break
		}
		g.Go(func() error {
			if has, err := there.has(fsys, out, s); has || err != nil {
				return err
			}
			made := "" // the deepest directory first: it takes its parents along
			if n := len(s.Artifacts); n > 0 {
				made = filepath.Dir(filepath.Join(Next(out), s.Node, filepath.FromSlash(s.Artifacts[n-1].Path())))
				if err := fsys.MkdirAll(made); err != nil {
					return err
				}
			}
			return p.files(s, signer, at, func(path string, content []byte) error {
				path = filepath.FromSlash(path)
				to := filepath.Join(Next(out), path)
				if parent := filepath.Dir(to); made != parent && !strings.HasPrefix(made, parent+string(filepath.Separator)) {
					if err := fsys.MkdirAll(parent); err != nil {
						return err
					}
					made = parent
				}
				if s.keep {
					if fsys.Link(filepath.Join(out, path), to) == nil {
						return nil
					}
					copied.Store(true)
				}
				return fsys.WriteFile(to, content)
			})
		})
	}
	err = errors.Join(g.Wait(), ctx.Err())
	return !copied.Load(), err
}

// Swap puts the tree at Next(out), which is on disk, in the place of out, and
// clears the old one away. After a crash Recover ends it.
func Swap(fsys FS, out string) error {
	old, err := swap(fsys, out)
	if err != nil || old == "" {
		return err
	}
	return fsys.RemoveAll(old)
}

// swap is Swap that leaves the old tree, and says where.
func swap(fsys FS, out string) (old string, err error) {
	next, last, parent := Next(out), out+lastSuffix, filepath.Dir(out)
	there, err := fsys.Exists(out)
	if err != nil {
		return "", err
	}
	if !there {
		return "", errors.Join(fsys.Rename(next, out), fsys.SyncDir(parent))
	}
	err = fsys.Exchange(next, out)
	if err == nil {
		// The old tree is at next; it may change once the exchange is on disk.
		return next, fsys.SyncDir(parent)
	}
	if !errors.Is(err, errors.ErrUnsupported) {
		return "", err
	}
	if err := fsys.Rename(out, last); err != nil {
		return "", err
	}
	// Both moves in their order: Recover needs the old tree while the new one
	// is not in its place.
	if err := fsys.SyncDir(parent); err != nil {
		return "", err
	}
	return last, errors.Join(fsys.Rename(next, out), fsys.SyncDir(parent))
}
