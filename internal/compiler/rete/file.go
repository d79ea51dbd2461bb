package rete

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"reflect"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// file is what one file says.
type file struct {
	decoder
	err error // why it could not be read at all

	source   *Source
	sourceAt place
	rete     *Entry[Rete]
	nodes    []Entry[Node]
	services []Entry[Service]
	groups   []Entry[Group]
	roles    []Entry[Role]
	users    []Entry[User]
}

// collections are the keys a file may have at its top.
var collections = []string{"source", "rete", "nodes", "services", "groups", "roles", "users"}

// loadFile reads and decodes one file.
func loadFile(fsys fs.FS, name string) *file {
	f := &file{decoder: decoder{file: name}}
	text, err := ReadFile(fsys, name, MaxFile)
	var large *tooLargeError
	switch {
	case errors.As(err, &large):
		f.add("1", place{file: name}, "", "larger than %d MiB; split the file, names are merged across files", MaxFile>>20)
	case err != nil:
		f.err = err
		f.add("", place{file: name}, "", "%v", bare(err))
	default:
		f.parse(text)
	}
	return f
}

type tooLargeError struct{ max int }

func (e *tooLargeError) Error() string { return fmt.Sprintf("larger than %d bytes", e.max) }

var errNotRegular = errors.New("not a regular file")

// ReadFile reads a regular file of at most max bytes. Its kind is looked at before
// it is opened: a pipe would wait for who writes to it.
func ReadFile(fsys fs.FS, name string, max int) ([]byte, error) {
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errNotRegular
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	switch info, err = f.Stat(); {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular(): // it was replaced meanwhile
		return nil, errNotRegular
	case info.Size() > int64(max):
		return nil, &tooLargeError{max}
	}
	text, err := io.ReadAll(io.LimitReader(f, int64(max)+1))
	if err == nil && len(text) > max { // it grew meanwhile
		err = &tooLargeError{max}
	}
	return text, err
}

func (f *file) parse(text []byte) {
	if !utf8.Valid(text) {
		f.add("", place{file: f.file}, "", "not UTF-8 text; save the file as UTF-8")
		return
	}
	loader, err := yaml.NewLoader(bytes.NewReader(text))
	if err != nil {
		f.add("", place{file: f.file}, "", "not YAML: %v", err)
		return
	}
	var root, second yaml.Node
	switch err := loader.Load(&root); {
	case errors.Is(err, io.EOF):
		return // an empty file says nothing
	case err != nil:
		f.notYAML(err)
		return
	}
	switch err := loader.Load(&second); {
	case errors.Is(err, io.EOF):
	case err != nil:
		f.notYAML(err)
	default:
		f.fault(&second, "", "a second document begins here; a file has one, write the next to a file of its own")
	}
	for _, top := range root.Content {
		f.refuse(top, 0)
		if len(f.faults) == 0 {
			f.document(top)
		}
	}
}

func (f *file) notYAML(err error) {
	var load *yaml.LoadError
	if !errors.As(err, &load) {
		f.add("", place{file: f.file}, "", "not YAML: %v", err)
		return
	}
	message := load.Message
	if load.ContextMsg != "" {
		message += " " + load.ContextMsg
	}
	f.add("", place{f.file, load.Mark.Line, load.Mark.Column}, "", "not YAML: %s", message)
}

// document reads the top of a file.
func (f *file) document(n *yaml.Node) {
	if null(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		f.fault(n, "", "a file must be a mapping of %s, not %s", strings.Join(collections, ", "), kindName(n))
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		name, ok := f.key(key, "")
		if !ok {
			continue
		}
		if seen[name] {
			f.add("13", f.at(key), name, "%s: is given twice in this file; join the two", name)
			continue
		}
		seen[name] = true
		f.collection(name, key, value)
	}
}

func (f *file) collection(name string, key, value *yaml.Node) {
	switch name {
	case "source":
		f.source, f.sourceAt = new(Source), f.at(key)
		f.value(value, reflect.ValueOf(f.source).Elem(), name, name)
	case "rete":
		f.rete = &Entry[Rete]{Name: name, kind: name, file: f.file, key: key, node: value}
		f.value(value, reflect.ValueOf(&f.rete.Value).Elem(), name, name)
	case "nodes":
		f.nodes = entries[Node](f, name, value)
	case "services":
		f.services = entries[Service](f, name, value)
	case "groups":
		f.groups = entries[Group](f, name, value)
	case "roles":
		f.roles = entries[Role](f, name, value)
	case "users":
		f.users = entries[User](f, name, value)
	default:
		hint := "the keys of a file are " + strings.Join(collections, ", ")
		if near := nearest(name, collections); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		f.add("13", f.at(key), name, "unknown key %q; %s", name, hint)
	}
}

// Entry is one named thing of a repository, and where it stands.
type Entry[T any] struct {
	Name  string
	Value T

	kind      string // the collection
	file      string
	key, node *yaml.Node
}

// entries reads a collection.
func entries[T any](f *file, kind string, n *yaml.Node) []Entry[T] {
	if null(n) {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		f.fault(n, "", "%s must be a mapping of names, not %s", kind, kindName(n))
		return nil
	}
	all := make([]Entry[T], 0, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		name, ok := f.key(key, kind)
		if !ok {
			continue
		}
		all = append(all, Entry[T]{Name: name, kind: kind, file: f.file, key: key, node: value})
		title := all[len(all)-1].title()
		if name == "" {
			f.fault(key, title, "an entry of %s has no name", kind)
		}
		f.value(value, reflect.ValueOf(&all[len(all)-1].Value).Elem(), title, title)
	}
	return all
}

// title is how reports name the entry.
func (e *Entry[T]) title() string {
	if e.kind == e.Name {
		return e.Name
	}
	return e.kind + "." + e.Name
}

// here is where the entry begins.
func (e *Entry[T]) here() place { return place{e.file, e.key.Line, e.key.Column} }

// at is where a field of the entry stands, found by names and list indexes; of
// a field that is not there, where what should hold it stands. Only faults ask,
// so no decoder has to keep places.
func (e *Entry[T]) at(path ...any) place {
	n, where := e.node, e.key
	for _, step := range path {
		next := child(n, step)
		if next == nil {
			break
		}
		n, where = next, next
	}
	return place{e.file, where.Line, where.Column}
}

// where is at, for who may not need to know.
func (e *Entry[T]) where(path ...any) where { return func() place { return e.at(path...) } }

func child(n *yaml.Node, step any) *yaml.Node {
	switch step := step.(type) {
	case int:
		if n.Kind == yaml.SequenceNode && step < len(n.Content) {
			return n.Content[step]
		}
	case string:
		for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == step {
				return n.Content[i+1]
			}
		}
	}
	return nil
}
