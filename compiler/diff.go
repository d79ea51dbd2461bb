package compiler

import "github.com/edictdev/edict/policy"

// Diff is the change between two rule lists, each part in canonical order. Its
// key is (source, destination, protocol, ports): a rule whose action alone
// changed is modified.
type Diff struct {
	Added    []policy.Rule
	Removed  []policy.Rule
	Modified []Modified
}

// Modified is one rule whose action changed.
type Modified struct{ Before, After policy.Rule }

// Empty reports whether the lists say the same.
func (d Diff) Empty() bool {
	return len(d.Added) == 0 && len(d.Removed) == 0 && len(d.Modified) == 0
}

// Compare says how to come from one rule list to the other. Order and
// repetition do not count. Where several rules share a key, those in both lists
// are unchanged, and the others pair up in canonical order.
func Compare(from, to []policy.Rule) Diff {
	var d Diff
	old, new := Canonical(from), Canonical(to)
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

// key is a rule without its action. The action is last in the canonical order,
// so rules of one key stand together in a canonical list.
func key(r policy.Rule) policy.Rule {
	r.Action = ""
	return r
}

func keyLen(rules []policy.Rule, k policy.Rule) int {
	n := 0
	for n < len(rules) && key(rules[n]) == key(k) {
		n++
	}
	return n
}

// without is the rules of a that are not in b; both hold at most one rule per
// action.
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
