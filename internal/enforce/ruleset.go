//go:build linux

package enforce

import (
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/knftables"
)

// Ruleset is what a table of ours holds: nothing of it names a time, so equal
// tables of a node have equal rulesets.
type Ruleset struct {
	chains   []*chain
	maps     []*vmap
	counters []string // named ones, which rules count with
}

// chain is a list of rules; one with a hook is where packets come in.
type chain struct {
	name  string
	hook  *hook
	rules []string
}

// hook is the place of a base chain.
type hook struct {
	kind     knftables.BaseChainType
	hook     knftables.BaseChainHook
	priority int
	policy   knftables.BaseChainPolicy
}

// vmap is a verdict map of intervals.
type vmap struct {
	name     string
	typ      string // as nft names the key
	elements []element
}

// element is an interval of a map. Its keys are apart from those of the others.
type element struct{ key, verdict string }

// interval is an interval as nft writes it.
func interval[T point[T]](from, to T, text func(T) string) string {
	if from == to {
		return text(from)
	}
	return text(from) + "-" + text(to)
}

func portText(p port) string { return strconv.Itoa(int(p)) }

// sort puts everything in the order of names.
func (r *Ruleset) sort() {
	slices.SortFunc(r.chains, func(a, b *chain) int { return strings.Compare(a.name, b.name) })
	slices.SortFunc(r.maps, func(a, b *vmap) int { return strings.Compare(a.name, b.name) })
	slices.Sort(r.counters)
}

// Elements counts the intervals of all maps.
func (r *Ruleset) Elements() (n int) {
	for _, m := range r.maps {
		n += len(m.elements)
	}
	return n
}
