package document

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
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
	if errors.As(err, &pathErr) && pathErr.Path == file {
		err = pathErr.Err // the path is said already
	}
	return Fault{File: file, Message: err.Error(), Unreadable: true}
}

func read(file string, stdin io.Reader) (text []byte, name string, err error) {
	if file == "-" {
		text, err = Text(stdin)
		return text, Stdin, err
	}
	text, err = ReadFile(file)
	return text, file, err
}

// maxText bounds a text that is held as a whole, in bytes: what is longer is likelier a stream
// without an end than what an author wrote, and takes all memory once it is read.
const maxText = 256 << 20

var errBinary = errors.New("not text, it has a byte 0; save the file as UTF-8")

// ReadFile reads a text whole, as Text does.
func ReadFile(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Text(f)
}

// Code reads a text whole that is no document, such as Rego, without its byte order mark. One
// that is not UTF-8 is refused: written as JSON it would be another one.
func Code(file string) (string, error) {
	text, err := ReadFile(file)
	if err != nil {
		return "", err
	}
	if i := invalidUTF8(text); i >= 0 {
		line, _ := position(text, i)
		return "", fmt.Errorf("not UTF-8 text, in line %d; save the file as UTF-8", line)
	}
	return strings.TrimPrefix(string(text), byteOrderMark), nil
}

// Text reads a text whole, and gives up on what is none, or too long.
func Text(r io.Reader) ([]byte, error) { return upTo(maxText, r) }

func upTo(most int64, r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(OnlyText(r), most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("longer than %d bytes; is it the file that was meant? Else divide it", most)
	}
	return text, err
}

// byteOrderMark is what programs on Windows put in front of a text in UTF-8.
const byteOrderMark = "\ufeff"

// SkipMark reads a byte order mark, if a text begins with one.
func SkipMark(text *bufio.Reader) {
	if head, _ := text.Peek(len(byteOrderMark)); string(head) == byteOrderMark {
		_, _ = text.Discard(len(byteOrderMark)) // peeked
	}
}

// OnlyText is r up to its first byte 0, which is an error: a device or a binary file may have
// no end, nor any line.
func OnlyText(r io.Reader) io.Reader { return &onlyText{r: r} }

type onlyText struct {
	r   io.Reader
	err error // of the byte 0 that was met
}

func (t *onlyText) Read(p []byte) (int, error) {
	if t.err != nil {
		return 0, t.err
	}
	n, err := t.r.Read(p)
	if at := bytes.IndexByte(p[:n], 0); at >= 0 {
		n, err = at, errBinary
		t.err = err
	}
	return n, err
}

// Expand is the files that a path means: of a directory, those below it, by name,
// that are YAML or JSON by their names, or end with one of more. A link to a directory is
// one; each is read once, by whatever way it is met first.
func Expand(path string, more ...string) ([]string, error) {
	if path == "-" {
		return []string{path}, nil
	}
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return []string{path}, err
	}
	s := search{extensions: slices.Concat(extensions, more)}
	err = s.directory(path, info)
	return s.files, err
}

// search is a walk through directories.
type search struct {
	extensions []string
	files      []string
	seen       []fs.FileInfo // directories, so that links that lead around end
}

func (s *search) directory(path string, info fs.FileInfo) error {
	if slices.ContainsFunc(s.seen, func(other fs.FileInfo) bool { return os.SameFile(info, other) }) {
		return nil
	}
	s.seen = append(s.seen, info)
	entries, err := os.ReadDir(path)
	for _, entry := range entries {
		if err != nil {
			break
		}
		if !strings.HasPrefix(entry.Name(), ".") { // else it is hidden
			err = s.entry(filepath.Join(path, entry.Name()), entry)
		}
	}
	return err
}

func (s *search) entry(path string, entry fs.DirEntry) error {
	kind := entry.Type()
	if entry.IsDir() || entry.Type()&fs.ModeSymlink != 0 {
		info, err := os.Stat(path)
		if err == nil && info.IsDir() {
			return s.directory(path, info)
		}
		read := slices.Contains(s.extensions, filepath.Ext(path)) // its fault stands with the file
		switch {
		case entry.IsDir():
			return err
		case err != nil && !read: // it may be a directory, whose policies --prune would delete
			return fmt.Errorf("a link leads nowhere; mend or remove it: %w", err)
		}
		if err == nil {
			kind = info.Mode().Type()
		}
	}
	if slices.Contains(s.extensions, filepath.Ext(path)) {
		if kind&^fs.ModeSymlink != 0 { // a pipe would be waited for
			return fmt.Errorf("%s is no file, but a pipe or a device; remove it, or name it by itself", path)
		}
		s.files = append(s.files, path)
	}
	return nil
}
