package rete

import (
	"bytes"
	"io/fs"
	"path"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
)

// ruleCustody is rule 15: no private key lies in the repository. What git keeps of
// its own is not looked into, nor are YAML and JSON, which are judged elsewhere. A
// compiled tree has tens of thousands of directories, so that it takes all cores,
// one depth after the other.
func (c *checker) ruleCustody() {
	for dirs := []string{"."}; len(dirs) > 0; {
		below, keys, hidden := make([][]string, len(dirs)), make([][]string, len(dirs)), make([][]string, len(dirs))
		var g errgroup.Group
		g.SetLimit(runtime.GOMAXPROCS(0))
		for i, dir := range dirs {
			g.Go(func() error {
				below[i], keys[i], hidden[i] = c.keysIn(dir)
				return nil
			})
		}
		_ = g.Wait() // none of them fails
		for _, name := range slices.Concat(keys...) {
			c.add("15", place{file: name}, "", "it holds a private key, which whoever reads the repository could use; move it out, and replace it by a new one if it was ever committed")
		}
		for _, name := range slices.Concat(hidden...) {
			c.add("15", place{file: name}, "", "its name is not UTF-8, so nobody can look whether it holds a private key; rename it")
		}
		dirs = slices.Concat(below...)
	}
}

// keysIn lists what is directly in a directory: directories to look into, files that hold a
// private key, and what has a name by which nothing can be opened. Who reads what cannot
// be read here for other reasons will say so.
func (c *checker) keysIn(dir string) (below, keys, hidden []string) {
	entries, _ := fs.ReadDir(c.repo, dir)
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		switch {
		case !fs.ValidPath(name):
			hidden = append(hidden, name)
		case e.IsDir() && e.Name() != ".git":
			below = append(below, name)
		case e.Type().IsRegular() && c.holdsKey(name):
			keys = append(keys, name)
		}
	}
	return below, keys, hidden
}

func (c *checker) holdsKey(name string) bool {
	switch path.Ext(name) {
	case ".yaml", ".yml", ".json":
		return false
	}
	const maxKey = 64 << 10
	text, err := ReadFile(c.repo, name, maxKey)
	return err == nil && bytes.Contains(text, []byte("-----BEGIN ")) && bytes.Contains(text, []byte("PRIVATE KEY-----"))
}
