package snapshot

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// crowd is nodes that enforce the same list, before a change and after.
type crowd struct {
	SomeNodes
	*enforcedHeads
	node policy.Node // one of them
}

// enforcedHeads are what some label sets enforce before a change, and after.
type enforcedHeads struct {
	before, after []datapath.Head
	rules         int           // of all of them
	asked         []policy.Expr // what they ask of labels, each once
}

// touchedSet is label sets that the same of it holds for. Their nodes differ in
// which of the CIDRs of their own side hold one of their addresses.
type touchedSet struct {
	*enforcedHeads
	cidrs []netip.Prefix
}

// crowds divides the nodes that are touched, the largest crowd first.
func (f *foresight) crowds() ([]*crowd, error) {
	sets, err := f.sets()
	if err != nil {
		return nil, err
	}
	type place struct {
		set *touchedSet
		in  string
	}
	found, shared, looked := map[place]*crowd{}, map[*policy.Label]*touchedSet{}, 0
	for n := range f.nodes.all() {
		if looked++; looked%1024 == 0 {
			if err := f.proceed(); err != nil {
				return nil, err
			}
		}
		if set := setOf(n.Labels, sets, shared); set != nil {
			at := place{set, set.in(n.Addresses)}
			if found[at] == nil {
				found[at] = &crowd{node: n.Node, enforcedHeads: set.enforcedHeads}
			}
			found[at].add(1, n.ID)
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b *crowd) int {
		return cmp.Or(-cmp.Compare(a.Count, b.Count), cmp.Compare(a.First[0], b.First[0]))
	}), nil
}

// sets are those that are touched, by labels, as many as there are steps for.
func (f *foresight) sets() (map[string]*touchedSet, error) {
	sets, kinds := map[string]*touchedSet{}, setKinds{map[headsKind]*enforcedHeads{}, map[setKind]*touchedSet{}}
	for n, s := range f.touched.Sets {
		if n%1024 == 1023 {
			if err := f.proceed(); err != nil {
				return nil, err
			}
		}
		set, err := f.set(s, kinds)
		if tooLarge(err) {
			f.seen.more()
			return sets, nil
		}
		if err != nil {
			return nil, err
		}
		sets[s.Labels.Key()] = set
	}
	return sets, nil
}

// setKinds are the heads and the sets that are known already.
type setKinds struct {
	heads map[headsKind]*enforcedHeads
	sets  map[setKind]*touchedSet
}

// headsKind is equal for label sets that the same policies match before and after.
type headsKind struct {
	first   *projector.HeadRef
	drafted bool
}

// setKind is equal for label sets that the same holds for.
type setKind struct {
	*enforcedHeads
	holds string
}

func (f *foresight) set(s projector.LabelSet, known setKinds) (_ *touchedSet, err error) {
	sel := f.draft.Revision.Selector
	by := headsKind{firstOf(s.Matched), len(f.draft.Revision.Rules) > 0 && (sel.Source.Matches(s.Labels) || sel.Destination.Matches(s.Labels))}
	heads := known.heads[by]
	if heads == nil {
		if heads, err = f.heads(s.Matched, by.drafted); err != nil {
			return nil, err
		}
		known.heads[by] = heads
	}
	kind := setKind{heads, heads.holds(s.Labels)}
	set := known.sets[kind]
	if set == nil {
		if err := f.work.Rules(heads.rules); err != nil {
			return nil, err
		}
		set = &touchedSet{heads, ownCIDRs(s.Labels, slices.Concat(heads.before, heads.after))}
		known.sets[kind] = set
	}
	return set, nil
}

// firstOf tells apart lists that sets share.
func firstOf(matched []projector.HeadRef) *projector.HeadRef {
	if len(matched) == 0 {
		return nil
	}
	return &matched[0]
}

// holds says which of what is asked of labels some labels satisfy.
func (e *enforcedHeads) holds(labels policy.Labels) string {
	bits := make([]byte, (len(e.asked)+7)/8)
	for i, x := range e.asked {
		if x.Matches(labels) {
			bits[i/8] |= 1 << (i % 8)
		}
	}
	return string(bits)
}

// ask adds what a policy and its rules ask of labels.
func (e *enforcedHeads) ask(h datapath.Head, seen map[string]bool) {
	e.rules += len(h.Revision.Rules)
	add := func(text string, x policy.Expr) {
		if text != "" && !seen[text] {
			seen[text] = true
			e.asked = append(e.asked, x)
		}
	}
	for _, side := range []policy.Expr{h.Revision.Selector.Source, h.Revision.Selector.Destination} {
		add(side.Canonical(), side)
	}
	for _, r := range h.Revision.Rules {
		for _, own := range []string{r.SourceSelector, r.DestinationSelector} {
			if own != "" && !seen[own] {
				x, _ := policy.ParseExpr(own) // canonical, so without faults
				add(own, x)
			}
		}
	}
}

// heads reads what is enforced of some policies, and what would be.
func (f *foresight) heads(matched []projector.HeadRef, drafted bool) (*enforcedHeads, error) {
	e, seen := &enforcedHeads{}, map[string]bool{}
	for _, ref := range matched {
		h, known := f.revs[ref]
		if !known {
			r, err := f.touched.Revision(ref)
			if err != nil {
				return nil, err
			}
			h = datapath.Head{Policy: ref.Policy, Revision: r}
			f.revs[ref] = h
		}
		e.ask(h, seen)
		if e.before = append(e.before, h); ref.Policy != f.draft.Policy {
			e.after = append(e.after, h)
		}
	}
	if drafted {
		e.after = append(e.after, f.draft)
		e.ask(f.draft, seen)
	}
	return e, nil
}

// ownCIDRs are those of the rules' own sides that a node of the labels is on.
func ownCIDRs(labels policy.Labels, heads []datapath.Head) (all []netip.Prefix) {
	seen := map[netip.Prefix]bool{}
	for _, h := range heads {
		sel := h.Revision.Selector
		source, destination := sel.Source.Matches(labels), sel.Destination.Matches(labels)
		for _, r := range h.Revision.Rules {
			for _, side := range []struct {
				on   bool
				cidr netip.Prefix
			}{{source, r.Source}, {destination, r.Destination}} {
				if side.on && side.cidr.IsValid() && !seen[side.cidr] {
					seen[side.cidr] = true
					all = append(all, side.cidr)
				}
			}
		}
	}
	return all
}

// in is equal for addresses with which nodes of the set enforce the same: which of
// the CIDRs hold one, and whether all are of one family.
func (t *touchedSet) in(addresses policy.Addresses) string {
	key := make([]byte, (len(t.cidrs)+7)/8+1)
	for _, a := range addresses {
		key[0] |= 1
		if a.Is4() {
			key[0] |= 2
		} else {
			key[0] |= 4
		}
		for i, c := range t.cidrs {
			if c.Contains(a) {
				key[1+i/8] |= 1 << (i % 8)
			}
		}
	}
	return string(key)
}

// setOf is the set of some labels, nil for those that are not touched. Nodes share
// their labels, mostly, so few are compared.
func setOf(labels policy.Labels, sets map[string]*touchedSet, shared map[*policy.Label]*touchedSet) *touchedSet {
	if len(labels) == 0 {
		return sets[labels.Key()]
	}
	set, known := shared[&labels[0]]
	if !known {
		set = sets[labels.Key()]
		shared[&labels[0]] = set
	}
	return set
}

// listName is equal for lists of the same rules at the same ends, and the same
// default without any.
type listName string

func nameOf(list datapath.NodeList) listName {
	var b strings.Builder
	fmt.Fprintln(&b, list.Closed)
	for i := range list.Rules {
		r := &list.Rules[i]
		fmt.Fprintf(&b, "%s %d %d %t\n", r.Ref.Policy, r.Ref.Index, r.Direction, r.Peer.Any)
	}
	return listName(b.String())
}
