package projector

import (
	"maps"
	"slices"
)

// rest lets go of what only a node's labels are held against. The project is archived: it
// has no nodes, and none comes before wake. What is let go is derived: no record has it, and
// neither a verdict nor the digest depends on it.
func (p *project) rest() {
	for _, x := range p.slugs {
		x.selector.filed = [2]filing{}
	}
	// New maps: those that were emptied keep their room.
	p.index, p.identities, p.selectors = newIndex(), map[string]*identity{}, map[string]*selector{}
}

// wake makes again what rest let go.
func (p *project) wake() {
	all := map[*selector]struct{}{}
	for _, x := range p.slugs {
		all[x.selector] = struct{}{}
	}
	for _, s := range slices.SortedFunc(maps.Keys(all), inOrder) {
		p.selectors[s.key()] = s
		p.index.file(s)
	}
}
