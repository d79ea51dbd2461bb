package compiler

import (
	"slices"

	"github.com/edictdev/edict/policy"
)

// Diff is the change between two rule lists, each part in canonical order. Its
// key is whom and what a rule matches (source, destination, protocol, ports, direction): a
// rule of which only what it does has changed is modified.
type Diff struct {
	Added    []policy.Rule
	Removed  []policy.Rule
	Modified []Modified
}

// Modified is one rule that does something else than before.
type Modified struct{ Before, After policy.Rule }

// Empty reports whether the lists are equal.
func (d Diff) Empty() bool {
	return len(d.Added) == 0 && len(d.Removed) == 0 && len(d.Modified) == 0
}

// Compare returns the changes from one rule list to the other. Order and repetition do
// not count. Where several rules share a key, those in both lists
// are unchanged, and the others pair up in canonical order.
func Compare(from, to []policy.Rule) Diff {
	var d Diff
	old, new := byKey(from), byKey(to)
	for len(old) > 0 || len(new) > 0 {
		var gone, come []policy.Rule
		gone, come, old, new = nextKey(old, new)
		gone, come = without(gone, come), without(come, gone)
		n := min(len(gone), len(come))
		for i := range n {
			d.Modified = append(d.Modified, Modified{gone[i], come[i]})
		}
		d.Removed = append(d.Removed, gone[n:]...)
		d.Added = append(d.Added, come[n:]...)
	}
	slices.SortFunc(d.Removed, policy.Rule.Compare)
	slices.SortFunc(d.Added, policy.Rule.Compare)
	slices.SortFunc(d.Modified, func(a, b Modified) int { return a.Before.Compare(b.Before) })
	return d
}

// nextKey cuts the rules with the lowest key off both canonical lists.
func nextKey(old, new []policy.Rule) (a, b, restOld, restNew []policy.Rule) {
	var least policy.Rule
	switch {
	case len(old) == 0:
		least = new[0]
	case len(new) == 0 || key(old[0]).Compare(key(new[0])) <= 0:
		least = old[0]
	default:
		least = new[0]
	}
	i, j := keyLen(old, least), keyLen(new, least)
	return old[:i], new[:j], old[i:], new[j:]
}

// byKey is the canonical list with the rules of one key together.
func byKey(rules []policy.Rule) []policy.Rule {
	list := Canonical(rules)
	slices.SortStableFunc(list, func(a, b policy.Rule) int { return key(a).Compare(key(b)) })
	return list
}

// key is what a rule matches, its direction among it, without what it does.
func key(r policy.Rule) policy.Rule {
	r.Action, r.ProxyPort, r.ListenerPriority, r.Auth = "", 0, 0, ""
	return r
}

func keyLen(rules []policy.Rule, k policy.Rule) int {
	n := 0
	for n < len(rules) && key(rules[n]) == key(k) {
		n++
	}
	return n
}

// without is the rules of a that are not in b; both hold few.
func without(a, b []policy.Rule) []policy.Rule {
	var only []policy.Rule
	for _, r := range a {
		in := false
		for _, o := range b {
			in = in || r == o
		}
		if !in {
			only = append(only, r)
		}
	}
	return only
}
