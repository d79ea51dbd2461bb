// Package crashfs is a file system in memory for crash tests: it counts the
// steps that change it, stops before one of them, and knows what would be on disk
// then. A file's content is on disk once the file was synced, a name once its
// directory was.
package crashfs

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing/fstest"
)

// ErrCrash is what every step ends with from the crash on.
var ErrCrash = errors.New("crash")

// After says what a crash leaves.
type After int

// What a crash may leave.
const (
	// Killed leaves everything as processes saw it: the machine went on.
	Killed After = iota
	// Lost leaves what was synced, and nothing else.
	Lost
	// Torn leaves every name, as file systems do whose journal holds names only,
	// but half of each content that was not synced.
	Torn
	// Uneven leaves the names of a directory as they were synced, and those of the
	// directories below it as processes saw them: file systems may write the later
	// change first. Of each content that was not synced it leaves half.
	Uneven
)

// Afters are all of them.
var Afters = []After{Killed, Lost, Torn, Uneven}

// String is for names of tests.
func (a After) String() string { return [...]string{"killed", "lost", "torn", "uneven"}[a] }

// FS is the file system. Paths are relative. Its methods are those of
// cmd/tree.FS, and more.
type FS struct {
	exchange bool // whether names can be exchanged

	mu      sync.Mutex
	root    *inode
	steps   int
	crashAt int // 0: never
}

// inode is a file, or a directory.
type inode struct {
	dir     bool
	names   map[string]*inode // of a directory, as processes see them
	durable map[string]*inode // as they are on disk
	content []byte
	synced  bool // whether the content is on disk
}

func newDir() *inode {
	return &inode{dir: true, names: map[string]*inode{}, durable: map[string]*inode{}}
}

// New is an empty file system. Some cannot exchange two names in one step.
func New(exchange bool) *FS { return &FS{exchange: exchange, root: newDir()} }

// Steps counts the changes so far.
func (f *FS) Steps() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.steps
}

// Settle has everything on disk, counts from 0 again, and crashes before the
// given step; 0: never.
func (f *FS) Settle(crashAt int) *FS {
	after := f.Crash(Killed)
	after.crashAt = crashAt
	return after
}

// Restart counts from 0 again after a process was killed, and crashes before the
// given step; 0: never. What was not on disk still is not.
func (f *FS) Restart(crashAt int) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &FS{exchange: f.exchange, root: f.root.again(map[*inode]*inode{}), crashAt: crashAt}
}

// again is a copy of an inode. Known has those that were asked before.
func (n *inode) again(known map[*inode]*inode) *inode {
	if known[n] != nil {
		return known[n]
	}
	left := *n
	known[n] = &left
	if n.dir {
		left.names, left.durable = map[string]*inode{}, map[string]*inode{}
		for name, child := range n.names {
			left.names[name] = child.again(known)
		}
		for name, child := range n.durable {
			left.durable[name] = child.again(known)
		}
	}
	return &left
}

// Crash is the file system after the machine, or the process, came back.
func (f *FS) Crash(after After) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &FS{exchange: f.exchange, root: f.root.crash(after, map[*inode]*inode{})}
}

// crash is what is left of an inode. Known has those that were asked before: a file
// of two names stays one file.
func (n *inode) crash(after After, known map[*inode]*inode) *inode {
	if known[n] != nil {
		return known[n]
	}
	if !n.dir {
		content := n.content
		if after != Killed && !n.synced {
			content = content[:len(content)/2]
		}
		known[n] = &inode{content: content, synced: true}
		return known[n]
	}
	left := newDir()
	known[n] = left
	names := n.names
	switch {
	case after == Lost:
		names = n.durable
	case after == Uneven && !maps.Equal(n.names, n.durable):
		names, after = n.durable, Torn // below it
	}
	for name, child := range names {
		left.names[name] = child.crash(after, known)
		left.durable[name] = left.names[name]
	}
	return left
}

// step counts a change, unless it is too late for one.
func (f *FS) step() error {
	f.steps++
	if f.crashAt > 0 && f.steps >= f.crashAt {
		return ErrCrash
	}
	return nil
}

// find is the inode of a path, or nil.
func (f *FS) find(path string) *inode {
	at := f.root
	for _, name := range split(path) {
		if at == nil || !at.dir {
			return nil
		}
		at = at.names[name]
	}
	return at
}

func split(path string) []string {
	path = filepath.ToSlash(filepath.Clean(path))
	if path == "." || path == "/" {
		return nil
	}
	return strings.Split(strings.TrimPrefix(path, "/"), "/")
}

// parent is the directory that a path's name is in, and that name.
func (f *FS) parent(path string) (*inode, string, error) {
	dir := f.find(filepath.Dir(path))
	if dir == nil || !dir.dir {
		return nil, "", &fs.PathError{Op: "find", Path: path, Err: fs.ErrNotExist}
	}
	return dir, filepath.Base(path), nil
}

// Exists says whether a path has that name.
func (f *FS) Exists(path string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.find(path) != nil, nil
}

// IsDir says whether a directory has that name.
func (f *FS) IsDir(path string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.find(path)
	return n != nil && n.dir, nil
}

// ReadFile reads a whole file.
func (f *FS) ReadFile(path string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.find(path)
	if n == nil || n.dir {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fs.ErrNotExist}
	}
	return slices.Clone(n.content), nil
}

// ReadDir lists a directory by name.
func (f *FS) ReadDir(path string) ([]fs.DirEntry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.find(path)
	if n == nil || !n.dir {
		return nil, &fs.PathError{Op: "list", Path: path, Err: fs.ErrNotExist}
	}
	listed := fstest.MapFS{}
	for name, child := range n.names {
		mode := fs.FileMode(0)
		if child.dir {
			mode = fs.ModeDir
		}
		listed[name] = &fstest.MapFile{Mode: mode}
	}
	return listed.ReadDir(".")
}

// SameFile says whether two names are of one file.
func (f *FS) SameFile(a, b string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.find(a)
	return one != nil && one == f.find(b)
}

// MkdirAll is one step for each directory that is made.
func (f *FS) MkdirAll(path string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := f.root
	for _, name := range split(path) {
		if at.names[name] == nil {
			if err := f.step(); err != nil {
				return err
			}
			at.names[name] = newDir()
		}
		at = at.names[name]
	}
	return nil
}

// WriteFile refuses a name that is there.
func (f *FS) WriteFile(path string, content []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, name, err := f.parent(path)
	if err != nil {
		return err
	}
	if dir.names[name] != nil {
		return &fs.PathError{Op: "write", Path: path, Err: fs.ErrExist}
	}
	if err := f.step(); err != nil {
		return err
	}
	dir.names[name] = &inode{content: slices.Clone(content)}
	return nil
}

// Link gives a file a second name.
func (f *FS) Link(from, to string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.find(from)
	dir, name, err := f.parent(to)
	if err != nil || n == nil {
		return errors.Join(fs.ErrNotExist, err)
	}
	if err := f.step(); err != nil {
		return err
	}
	dir.names[name] = n
	return nil
}

// SyncAll syncs a directory and everything below it.
func (f *FS) SyncAll(path string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sync(path, true)
}

// SyncDir syncs what has that name alone: the content of a file, the names in a
// directory.
func (f *FS) SyncDir(path string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sync(path, false)
}

func (f *FS) sync(path string, below bool) error {
	n := f.find(path)
	if n == nil {
		return &fs.PathError{Op: "sync", Path: path, Err: fs.ErrNotExist}
	}
	if err := f.step(); err != nil {
		return err
	}
	n.sync(below)
	return nil
}

func (n *inode) sync(below bool) {
	n.synced, n.durable = true, map[string]*inode{}
	for name, child := range n.names {
		n.durable[name] = child
		if below {
			child.sync(true)
		}
	}
}

// Rename replaces a file, and no directory.
func (f *FS) Rename(from, to string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	old, oldName, err1 := f.parent(from)
	dir, name, err2 := f.parent(to)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	n := old.names[oldName]
	if n == nil {
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	}
	if there := dir.names[name]; there != nil && (there.dir || n.dir) {
		return &fs.PathError{Op: "rename", Path: to, Err: fs.ErrExist}
	}
	if err := f.step(); err != nil {
		return err
	}
	delete(old.names, oldName)
	dir.names[name] = n
	return nil
}

// Exchange swaps two names, where this file system can.
func (f *FS) Exchange(a, b string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.exchange {
		return errors.ErrUnsupported
	}
	dirA, nameA, err1 := f.parent(a)
	dirB, nameB, err2 := f.parent(b)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if dirA.names[nameA] == nil || dirB.names[nameB] == nil {
		return &fs.PathError{Op: "exchange", Path: a, Err: fs.ErrNotExist}
	}
	if err := f.step(); err != nil {
		return err
	}
	dirA.names[nameA], dirB.names[nameB] = dirB.names[nameB], dirA.names[nameA]
	return nil
}

// RemoveAll removes a tree, if there is one. A crash meets it half done.
func (f *FS) RemoveAll(path string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, name, err := f.parent(path)
	if err != nil || dir.names[name] == nil {
		return nil //nolint:nilerr // what is not there need not be removed
	}
	if err := f.step(); err != nil {
		if f.steps == f.crashAt {
			dir.names[name].removeSome()
		}
		return err
	}
	delete(dir.names, name)
	return nil
}

// removeSome removes every other name.
func (n *inode) removeSome() {
	names := make([]string, 0, len(n.names))
	for name := range n.names {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		if child := n.names[name]; child.dir {
			child.removeSome()
		} else if i%2 == 0 {
			delete(n.names, name)
		}
	}
}

// Files are the files below a directory: their content by path from there.
func (f *FS) Files(dir string) map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := map[string]string{}
	if n := f.find(dir); n != nil {
		n.files("", all)
	}
	return all
}

func (n *inode) files(path string, all map[string]string) {
	if !n.dir {
		all[path] = string(n.content)
		return
	}
	for name, child := range n.names {
		child.files(strings.TrimPrefix(path+"/"+name, "/"), all)
	}
}

// Sub is what is below a directory, as io/fs shows it.
func (f *FS) Sub(dir string) fs.FS {
	files := fstest.MapFS{}
	for name, content := range f.Files(dir) {
		files[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return files
}
