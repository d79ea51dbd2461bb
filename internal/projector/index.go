package projector

import (
	"cmp"
	"iter"
	"slices"
	"sync/atomic"

	"github.com/edictdev/edict/internal/fault"
	"github.com/edictdev/edict/policy"
)

// index answers two questions about a project without looking at everything:
// which identities can a selector match, and which selectors can match an
// identity. Both go by terms: a key, or a key with a value.
type index struct {
	keys map[string]*keyBucket
	// unindexable are selectors with a side that requires no label at all
	// (only != and !k): every identity must be tried.
	unindexable bucketSelectors
	all         set                     // every identity of the project
	refiled     uint64                  // 1, and how often a selector was filed or unfiled
	last        atomic.Pointer[finding] // the last that was looked for
}

// bucket is one term: who has it, and which selectors are filed under it.
type bucket struct {
	identities set
	selectors  bucketSelectors
}

func (b *bucket) empty() bool { return b.identities.len() == 0 && len(b.selectors) == 0 }

// keyBucket is a key, and its values below it.
type keyBucket struct {
	bucket
	values map[string]*bucket
}

// bucketSelectors are sorted by ordinal, each once.
type bucketSelectors []*selector

func byOrdinal(s *selector, ordinal uint32) int { return cmp.Compare(s.ordinal, ordinal) }

func inOrder(a, b *selector) int { return byOrdinal(a, b.ordinal) }

func (b *bucketSelectors) add(s *selector) {
	if n := len(*b); n == 0 || (*b)[n-1].ordinal < s.ordinal { // nearly always: ordinals rise
		*b = append(*b, s)
		return
	}
	if i, there := slices.BinarySearchFunc(*b, s.ordinal, byOrdinal); !there {
		*b = slices.Insert(*b, i, s)
	}
}

func (b *bucketSelectors) remove(s *selector) {
	if i, there := slices.BinarySearchFunc(*b, s.ordinal, byOrdinal); there {
		*b = slices.Delete(*b, i, i+1)
	}
}

func newIndex() index { return index{keys: map[string]*keyBucket{}, refiled: 1} }

// term is what identities and selectors are filed under: a key with a value, or
// a key alone, and any identity with the key is in that one.
type term struct {
	policy.Label
	pair bool
}

// at returns the term's bucket, nil when nothing is filed under it.
func (x *index) at(t term) *bucket {
	k := x.keys[t.Key]
	switch {
	case k == nil:
		return nil
	case t.pair:
		return k.values[t.Value]
	}
	return &k.bucket
}

// open returns the buckets of a label, made if need be.
func (x *index) open(l policy.Label) (key *keyBucket, pair *bucket) {
	key = x.openKey(l.Key)
	pair = key.values[l.Value]
	if pair == nil {
		pair = &bucket{}
		if key.values == nil {
			key.values = map[string]*bucket{}
		}
		key.values[l.Value] = pair
	}
	return key, pair
}

// openTerm returns a term's bucket, made if need be.
func (x *index) openTerm(t term) *bucket {
	if t.pair {
		_, b := x.open(t.Label)
		return b
	}
	return &x.openKey(t.Key).bucket
}

func (x *index) openKey(name string) *keyBucket {
	k := x.keys[name]
	if k == nil {
		k = &keyBucket{}
		x.keys[name] = k
	}
	return k
}

// tidy forgets what is empty of a label's buckets.
func (x *index) tidy(l policy.Label) {
	k := x.keys[l.Key]
	if k == nil {
		return
	}
	if b := k.values[l.Value]; b != nil && b.empty() {
		delete(k.values, l.Value)
	}
	if k.empty() && len(k.values) == 0 {
		delete(x.keys, l.Key)
	}
}

// enter files a new identity under its terms.
func (x *index) enter(i *identity) {
	x.all.add(i.ordinal)
	for _, l := range i.labels {
		key, pair := x.open(l)
		key.identities.add(i.ordinal)
		pair.identities.add(i.ordinal)
	}
}

// leave undoes enter.
func (x *index) leave(i *identity) {
	x.all.remove(i.ordinal)
	for _, l := range i.labels {
		key, pair := x.open(l)
		key.identities.remove(i.ordinal)
		pair.identities.remove(i.ordinal)
		x.tidy(l)
	}
}

// file makes a selector findable by the identities it can match.
func (x *index) file(s *selector) {
	x.refiled++
	for side, e := range [...]policy.Expr{s.sel.Source, s.sel.Destination} {
		if side > 0 && e.Equal(s.sel.Source) {
			s.filed[side] = s.filed[0]
			break
		}
		f := x.rarest(e)
		if f.Key == "" {
			x.unindexable.add(s)
			continue
		}
		for t := range f.terms {
			x.openTerm(t).selectors.add(s)
		}
		s.filed[side] = f
	}
}

// unfile undoes file.
func (x *index) unfile(s *selector) {
	x.refiled++
	x.unindexable.remove(s)
	for side := range s.filed {
		for t := range s.filed[side].terms {
			if b := x.at(t); b != nil {
				b.selectors.remove(s)
				x.tidy(t.Label)
			}
		}
	}
	s.filed = [2]filing{}
}

// match returns the identities that a selector matches, which has been filed.
func (s *state) match(p *project, x *selector) set {
	out := s.matchFiled(p, x.sel.Source, &x.filed[0])
	if !x.sel.Source.Equal(x.sel.Destination) && !fault.Always(fault.OneSide) {
		other := s.matchFiled(p, x.sel.Destination, &x.filed[1])
		out.join(&other)
	}
	x.scope.cut(s, p, &out)
	return out
}

// matchAny returns the identities that any of some selectors matches.
func (s *state) matchAny(p *project, sels []policy.Selector) (any set) {
	for _, sel := range sels {
		for _, side := range []policy.Expr{sel.Source, sel.Destination} {
			matched := s.matchSide(p, side)
			any.join(&matched)
		}
	}
	return any
}

// matchSide returns the identities that satisfy one side.
func (s *state) matchSide(p *project, e policy.Expr) set {
	f := p.index.rarest(e)
	return s.matchFiled(p, e, &f)
}

// matchFiled goes by the rarest filing of e. A few candidates are tried one by one; of
// many, whole sets are joined and cut. The set returned is the caller's own.
func (s *state) matchFiled(p *project, e policy.Expr, f *filing) set {
	if f.Key == "" {
		return p.index.cut(p.index.all.clone(), e)
	}
	may := p.index.candidates(f)
	if len(e) == 1 {
		return may
	}
	if may.big != nil {
		return p.index.cut(may, e)
	}
	may.small = slices.DeleteFunc(may.small, func(i uint32) bool { return !e.Matches(s.identities.at(i).labels) })
	return may
}

// cut takes from in the identities that some clause does not hold for.
func (x *index) cut(in set, e policy.Expr) set {
	for i := range e {
		c := &e[i]
		k := x.keys[c.Key]
		if k == nil {
			k = &keyBucket{} // no identity has the key
		}
		switch c.Op {
		case policy.Exists:
			in.intersect(&k.identities)
		case policy.Absent:
			in.subtract(&k.identities)
		case policy.Equal:
			in.intersect(k.with(c.Values[0]))
		case policy.NotEqual:
			in.subtract(k.with(c.Values[0]))
		case policy.In:
			var any set
			for _, v := range c.Values {
				any.join(k.with(v))
			}
			in.intersect(&any)
		}
	}
	return in
}

// with are the identities that have the key with a value.
func (k *keyBucket) with(value string) *set {
	if b := k.values[value]; b != nil {
		return &b.identities
	}
	return &set{}
}

// finding is which selectors match a label set, by ordinal.
type finding struct {
	by      []*selector
	refiled uint64 // index.refiled then
}

// finding looks again if the one it has is of another time. A selector that comes or goes
// does not visit the identities it matches, which may be most of a fleet.
func (i *identity) finding() *finding {
	f := i.known()
	if f == nil {
		f = i.project.index.find(i.labels)
		i.found.Store(f)
	}
	return f
}

// known is the finding that still holds; nil: none does.
func (i *identity) known() *finding {
	if f := i.found.Load(); f != nil && f.refiled == i.project.index.refiled {
		return f
	}
	return nil
}

// selectors are those that match an identity, by ordinal; none match nothing.
func (i *identity) selectors() []*selector {
	if i == nil {
		return nil
	}
	return i.finding().by
}

// glance is selectors for whoever goes through all identities: it leaves nothing with them.
func (i *identity) glance() []*selector {
	if f := i.known(); f != nil {
		return f.by
	}
	return i.project.index.matching(i.labels)
}

// candidates is how many selectors have to be looked at for those that match an identity:
// none, if they are known.
func (i *identity) candidates() (n int) {
	if i.known() != nil {
		return 0
	}
	for sels := range i.project.index.mayMatch(i.labels) {
		n += len(sels)
	}
	return n + len(i.labels) // where they are filed is looked up, too
}

// find gives label sets that come one after the other the same finding, where the same
// selectors match them, as is often so.
func (x *index) find(labels policy.Labels) *finding {
	by := x.matching(labels)
	if f := x.last.Load(); f != nil && f.refiled == x.refiled && slices.Equal(f.by, by) {
		return f
	}
	f := &finding{slices.Clip(by), x.refiled}
	x.last.Store(f)
	return f
}

// matching are the selectors that match a label set, by ordinal.
func (x *index) matching(labels policy.Labels) (out []*selector) {
	for sels := range x.mayMatch(labels) {
		for _, s := range sels {
			if s.matches(labels) {
				out = append(out, s)
			}
		}
	}
	return eachOnce(out) // a selector may be filed by either side
}

// eachOnce puts selectors in the order of their ordinals, each once.
func eachOnce(list []*selector) []*selector {
	if !slices.IsSortedFunc(list, inOrder) { // mostly: they were filed under one term
		slices.SortFunc(list, inOrder)
	}
	return slices.Compact(list)
}

// mayMatch are lists of selectors, in which all are that match a label set.
func (x *index) mayMatch(labels policy.Labels) iter.Seq[bucketSelectors] {
	return func(yield func(bucketSelectors) bool) {
		if len(x.unindexable) > 0 && !yield(x.unindexable) {
			return
		}
		for _, l := range labels {
			k := x.keys[l.Key]
			if k == nil {
				continue
			}
			if len(k.selectors) > 0 && !yield(k.selectors) {
				return
			}
			if b := k.values[l.Value]; b != nil && len(b.selectors) > 0 && !yield(b.selectors) {
				return
			}
		}
	}
}
