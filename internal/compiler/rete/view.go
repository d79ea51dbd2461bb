package rete

import (
	"slices"
	"strings"
)

// View is all files of a repository as one.
type View struct {
	Rete     *Entry[Rete]
	Nodes    Collection[Node]
	Services Collection[Service]
	Groups   Collection[Group]
	Roles    Collection[Role]
	Users    Collection[User]
	Files    []string // that it was read from, sorted
}

// Collection is everything of one kind, sorted by name.
type Collection[T any] struct {
	All  []*Entry[T]
	name map[string]*Entry[T]
}

// Get finds an entry by name; nil: there is none.
func (c *Collection[T]) Get(name string) *Entry[T] { return c.name[name] }

// merge unites the files (rule 13).
func merge(files []*file) (*View, []Fault) {
	var r report
	v := &View{}
	var source *file
	for _, f := range files {
		r.faults = append(r.faults, f.faults...)
		v.Files = append(v.Files, f.file)
		if f.source != nil && (f.rete == nil && f.file != Anchor || source != nil) {
			r.add("13", f.sourceAt, "source", "a source block counts in %s alone; move it there", Anchor)
		}
		if f.source != nil {
			source = f
		}
		v.mergeRete(&r, f)
	}
	slices.Sort(v.Files)
	if v.Rete == nil && !slices.ContainsFunc(r.faults, Fault.unjudged) {
		r.add("13", place{file: first(v.Files)}, "rete", "no file has a rete block; write it to %s, or select the file that has it with -f", Anchor)
	}
	if v.Rete != nil && v.Rete.Value.Source != nil && source != nil {
		r.add("13", source.sourceAt, "source", "source is given beside the rete block and in it, at %s; keep one", placeText(v.Rete.at("source")))
	}
	unite(&r, files, &v.Nodes, func(f *file) []Entry[Node] { return f.nodes })
	unite(&r, files, &v.Services, func(f *file) []Entry[Service] { return f.services })
	unite(&r, files, &v.Groups, func(f *file) []Entry[Group] { return f.groups })
	unite(&r, files, &v.Roles, func(f *file) []Entry[Role] { return f.roles })
	unite(&r, files, &v.Users, func(f *file) []Entry[User] { return f.users })
	return v, sortFaults(r.faults)
}

// unjudged says whether a file may hold more than was seen of it.
func (f Fault) unjudged() bool { return f.Unreadable() || f.Rule == "1" }

func (v *View) mergeRete(r *report, f *file) {
	switch {
	case f.rete == nil:
	case v.Rete == nil:
		v.Rete = f.rete
	default:
		r.add("13", f.rete.here(), "rete", "the rete block is at %s already; a rete has one", placeText(v.Rete.here()))
	}
}

func first(names []string) string {
	if len(names) == 0 {
		return Anchor
	}
	return names[0]
}

func placeText(p place) string {
	return Fault{Path: p.file, Line: p.line, Column: p.column}.Place()
}

// unite collects one kind from all files. A name said twice is never last wins.
func unite[T any](r *report, files []*file, to *Collection[T], of func(*file) []Entry[T]) {
	n := 0
	for _, f := range files {
		n += len(of(f))
	}
	to.name, to.All = make(map[string]*Entry[T], n), make([]*Entry[T], 0, n)
	for _, f := range files {
		all := of(f)
		for i := range all {
			e := &all[i]
			if have := to.name[e.Name]; have != nil {
				r.add("13", e.here(), e.title(), "%s is at %s already; rename or remove one, nothing overrides", e.title(), placeText(have.here()))
				continue
			}
			to.name[e.Name] = e
			to.All = append(to.All, e)
		}
	}
	slices.SortFunc(to.All, func(a, b *Entry[T]) int { return strings.Compare(a.Name, b.Name) })
}
