package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

// spareFrom is how many nodes a tree has at least whose predecessor is kept for the
// next compile. To make and remove three directories for each of fewer nodes takes
// no time that anybody notices.
const spareFrom = 1000

// spareMark is in a tree that is kept for the next compile, and in no other. It keeps
// git from looking at what is beside it.
const (
	spareMark = ".gitignore"
	spareText = "# The tree before the last compile. The next one is made from it in less time; it may be removed.\n*\n"
)

// spare is what an earlier compile left where the next tree grows. Nothing in it is
// believed: only what has the right name and is the very file of the tree itself stays.
type spare map[string]fs.DirEntry // what is directly in it

// openSpare makes the place where the next tree grows, unless it is there, and
// removes what no node of the new tree has.
func (p *Plan) openSpare(fsys FS, out string) (spare, error) {
	next := Next(out)
	dir, err := fsys.IsDir(next)
	if err != nil {
		return nil, err
	}
	if !dir {
		return nil, errors.Join(fsys.RemoveAll(next), fsys.MkdirAll(next))
	}
	entries, err := fsys.ReadDir(next)
	if err != nil {
		return nil, err
	}
	keep := map[string]bool{}
	for _, s := range p.sets {
		keep[s.Node] = true
	}
	there := spare{}
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, e := range entries {
		if keep[e.Name()] {
			there[e.Name()] = e
			continue
		}
		g.Go(func() error { return fsys.RemoveAll(filepath.Join(next, e.Name())) })
	}
	return there, g.Wait()
}

// has says whether the spare has exactly the files of a node of the tree at out, and
// no directory more. Otherwise nothing of that node is left in it.
func (there spare) has(fsys FS, out string, s planned) (bool, error) {
	e, ok := there[s.Node]
	if !ok {
		return false, nil
	}
	if s.keep && e.IsDir() {
		files := make([]string, len(s.Artifacts))
		for i, a := range s.Artifacts {
			files[i] = s.Node + "/" + a.Path()
		}
		if sameFiles(fsys, out, s.Node, files) == len(files) {
			return true, nil
		}
	}
	return false, fsys.RemoveAll(filepath.Join(Next(out), s.Node))
}

// sameFiles counts the files below a directory of the spare that are those of the
// tree at out, if there is nothing else below it.
func sameFiles(fsys FS, out, dir string, files []string) int {
	entries, err := fsys.ReadDir(filepath.Join(Next(out), filepath.FromSlash(dir)))
	if err != nil {
		return -1
	}
	count := 0
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		switch {
		case e.IsDir() && slices.ContainsFunc(files, func(f string) bool { return strings.HasPrefix(f, name+"/") }):
			n := sameFiles(fsys, out, name, files)
			if n < 0 {
				return -1
			}
			count += n
		case e.Type().IsRegular() && slices.Contains(files, name) &&
			fsys.SameFile(filepath.Join(out, filepath.FromSlash(name)), filepath.Join(Next(out), filepath.FromSlash(name))):
			count++
		default:
			return -1
		}
	}
	return count
}

// retire keeps the tree that was replaced as a spare, or removes it. A spare is
// worth nothing where files cannot have two names.
func (p *Plan) retire(fsys FS, out, old string, linked bool) error {
	if old == "" {
		return nil
	}
	dir, err := fsys.IsDir(old)
	if err != nil {
		return err
	}
	if !dir || !linked || len(p.sets) < p.spareFrom {
		return fsys.RemoveAll(old)
	}
	if next := Next(out); old != next {
		if err := fsys.Rename(old, next); err != nil {
			return err
		}
		old = next
	}
	if err := fsys.WriteFile(filepath.Join(old, spareMark), []byte(spareText)); err != nil {
		return errors.Join(fmt.Errorf("keep the replaced tree: %w", err), fsys.RemoveAll(old))
	}
	return nil
}
