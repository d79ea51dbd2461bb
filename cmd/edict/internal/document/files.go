package document

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// extensions are those of the files a directory is searched for.
var extensions = []string{".yaml", ".yml", ".json", ".ndjson", ".jsonl"}

// Stdin is what "-" is called.
const Stdin = "stdin"

// Load reads files, directories (the files below them, by name, that are YAML
// or JSON by their names) and "-", which is stdin.
func Load(paths []string, stdin io.Reader) (docs []Document, faults []Fault) {
	for _, path := range paths {
		files, err := Expand(path)
		if err != nil {
			faults = append(faults, Unreadable(path, err))
			continue
		}
		if len(files) == 0 {
			faults = append(faults, NoFiles(path))
		}
		for _, file := range files {
			text, name, err := read(file, stdin)
			if err != nil {
				faults = append(faults, Unreadable(name, err))
				continue
			}
			d, f := Parse(name, text)
			docs, faults = append(docs, d...), append(faults, f...)
		}
	}
	return docs, faults
}

// NoFiles is the fault of a directory without files to read: it is likelier the wrong one than
// meant.
func NoFiles(dir string) Fault {
	return Fault{File: dir, Message: "no file below this directory ends with " + strings.Join(extensions, ", "), Unreadable: true}
}

// Unreadable is the fault of a file that could not be had.
func Unreadable(file string, err error) Fault {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err // the path is said already
	}
	return Fault{File: file, Message: err.Error(), Unreadable: true}
}

func read(file string, stdin io.Reader) (text []byte, name string, err error) {
	if file == "-" {
		text, err = io.ReadAll(stdin)
		return text, Stdin, err
	}
	text, err = os.ReadFile(file)
	return text, file, err
}

// Expand is the files that a path means: of a directory, those below it, by name,
// that are YAML or JSON by their names, or end with one of more.
func Expand(path string, more ...string) ([]string, error) {
	if path == "-" {
		return []string{path}, nil
	}
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return []string{path}, err
	}
	root := path
	if link, err := os.Lstat(path); err == nil && link.Mode()&fs.ModeSymlink != 0 {
		root += string(filepath.Separator) // or the walk would see the link alone
	}
	var files []string
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		hidden := strings.HasPrefix(d.Name(), ".") && p != root
		if d.IsDir() && hidden {
			return filepath.SkipDir
		}
		if !d.IsDir() && !hidden && (slices.Contains(extensions, filepath.Ext(p)) || slices.Contains(more, filepath.Ext(p))) {
			files = append(files, p)
		}
		return nil
	})
	return files, err
}
