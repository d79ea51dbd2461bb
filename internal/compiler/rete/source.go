package rete

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/bmatcuk/doublestar/v4"
)

// Anchor is the file that makes a directory a repository.
const Anchor = "rete.yaml"

// MaxFile is the most bytes of YAML in one file.
const MaxFile = 4 << 20

func validGlob(pattern string) bool {
	return pattern != "" && !path.IsAbs(pattern) && !slices.Contains(strings.Split(pattern, "/"), "..") && doublestar.ValidatePattern(pattern)
}

// Discover lists the files of a repository, sorted: every YAML file below its
// root, but for dotted names and certs; or what the anchor's source block says.
// A repository without the anchor, or one that cannot be walked, is a fault. A
// broken anchor is not: Load will tell, and meanwhile the others are found. A
// link to a directory, which is not followed, and a pattern that matches nothing
// are warnings.
func Discover(repo fs.FS) ([]string, []Fault) {
	var r report
	source, err := readSource(repo)
	if err != nil {
		r.add("", place{file: Anchor}, "", "%s", missingAnchor(repo, err))
		return nil, r.faults
	}
	var files []string
	_ = fs.WalkDir(repo, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			r.add("", place{file: name}, "", "%v", bare(err))
			return nil
		}
		skipped := name != "." && strings.HasPrefix(d.Name(), ".") || d.Name() == "certs"
		switch {
		case d.IsDir() && skipped:
			return fs.SkipDir
		case d.IsDir() || skipped:
		case d.Type()&fs.ModeSymlink != 0 && !source.wants(name) && notAFile(repo, name):
			r.warn("13", place{file: name}, "", "a link to a directory, or out of the repository, which is not followed; files below it are not read")
		case source.wants(name):
			files = append(files, name)
		}
		return nil
	})
	for _, g := range source.idle(files) {
		r.warn("13", place{file: Anchor}, "source", "the pattern %q of the source block matches no file", g)
	}
	return files, r.faults
}

// notAFile says whether a link leads to a directory, or nowhere inside.
func notAFile(repo fs.FS, name string) bool {
	info, err := fs.Stat(repo, name)
	return err != nil || info.IsDir()
}

// idle are the patterns of include that match none of the files.
func (s Source) idle(files []string) (idle []Glob) {
	for _, g := range s.Include {
		if !slices.ContainsFunc(files, func(name string) bool { return doublestar.MatchUnvalidated(string(g), name) }) {
			idle = append(idle, g)
		}
	}
	return idle
}

// readSource reads the source block of the anchor; a broken one is empty. The
// error says that there is no anchor.
func readSource(repo fs.FS) (Source, error) {
	f := loadFile(repo, Anchor)
	if f.err != nil {
		return Source{}, f.err
	}
	switch {
	case len(f.faults) > 0:
	case f.source != nil:
		return *f.source, nil
	case f.rete != nil && f.rete.Value.Source != nil:
		return *f.rete.Value.Source, nil
	}
	return Source{}, nil
}

func missingAnchor(repo fs.FS, err error) string {
	if !errors.Is(err, fs.ErrNotExist) {
		return bare(err).Error()
	}
	nested := ""
	_ = fs.WalkDir(repo, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fs.SkipDir
		case d.IsDir() && name != "." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case !d.IsDir() && d.Name() == Anchor:
			nested = name
			return fs.SkipAll
		}
		return nil
	})
	if nested != "" {
		return fmt.Sprintf("not found at the root of the repository, but at %s; name that directory with --repo", nested)
	}
	return "not found at the root of the repository; name the repository with --repo, or begin one with retectl init"
}

// wants says whether a file is part of the repository.
func (s Source) wants(name string) bool {
	if name == Anchor {
		return true
	}
	matches := func(g Glob) bool { return doublestar.MatchUnvalidated(string(g), name) }
	wanted := path.Ext(name) == ".yaml" || path.Ext(name) == ".yml"
	if len(s.Include) > 0 {
		wanted = slices.ContainsFunc(s.Include, matches)
	}
	return wanted && !slices.ContainsFunc(s.Exclude, matches)
}

// bare is an error without the path that a fault says already.
func bare(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// Load reads the named files and merges them into one view. The faults are all
// those of all files: with any, the view is not to be judged. A file named twice
// is read once.
func Load(fsys fs.FS, names []string) (*View, []Fault) {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	files := make([]*file, len(names))
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(names)) {
		wg.Go(func() {
			for i := range next {
				files[i] = loadFile(fsys, names[i])
			}
		})
	}
	for i := range names {
		next <- i
	}
	close(next)
	wg.Wait()
	return merge(files)
}
