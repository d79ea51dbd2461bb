package rete

import (
	"bytes"
	"io/fs"
	"path"
)

// ruleCustody is rule 15: no private key lies in the repository. What git keeps of
// its own is not looked into, nor are YAML and JSON, which are judged elsewhere.
func (c *checker) ruleCustody() {
	_ = fs.WalkDir(c.repo, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil // who reads that file will say so
		case d.IsDir() && d.Name() == ".git":
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		switch path.Ext(name) {
		case ".yaml", ".yml", ".json":
			return nil
		}
		const maxKey = 64 << 10
		text, err := ReadFile(c.repo, name, maxKey)
		if err == nil && bytes.Contains(text, []byte("-----BEGIN ")) && bytes.Contains(text, []byte("PRIVATE KEY-----")) {
			c.add("15", place{file: name}, "", "it holds a private key, which whoever reads the repository could use; move it out, and replace it by a new one if it was ever committed")
		}
		return nil
	})
}
