package projector

import (
	"cmp"
	"iter"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/google/uuid"
)

// smallSet is the size up to which a set is a sorted slice: most label sets
// have few nodes, and a bitmap costs more than it saves there. It has a container for
// each 65,536 ordinals, and each of them is a look elsewhere in memory.
const smallSet = 256

// set is a set of ordinals. The zero value is empty.
type set struct {
	small []uint32
	big   *bitmap
}

// bitmap knows how many members it has: to count them is to visit its containers.
type bitmap struct {
	*roaring.Bitmap
	n int
}

func newBitmap(b *roaring.Bitmap) *bitmap { return &bitmap{b, int(b.GetCardinality())} }

func (s *set) len() int {
	if s.big != nil {
		return s.big.n
	}
	return len(s.small)
}

func (s *set) has(x uint32) bool {
	if s.big != nil {
		return s.big.Contains(x)
	}
	_, ok := slices.BinarySearch(s.small, x)
	return ok
}

func (s *set) add(x uint32) {
	if s.big != nil {
		if s.big.CheckedAdd(x) {
			s.big.n++
		}
		return
	}
	if n := len(s.small); n == 0 || s.small[n-1] < x { // mostly: ordinals rise
		s.small = append(s.small, x)
	} else if i, ok := slices.BinarySearch(s.small, x); !ok {
		s.small = slices.Insert(s.small, i, x)
	}
	if len(s.small) > smallSet {
		s.big, s.small = newBitmap(roaring.BitmapOf(s.small...)), nil
	}
}

// remove keeps a bitmap a bitmap: a set that was large tends to be so again.
func (s *set) remove(x uint32) {
	if s.big != nil {
		if s.big.CheckedRemove(x) {
			s.big.n--
		}
		return
	}
	if i, ok := slices.BinarySearch(s.small, x); ok {
		s.small = slices.Delete(s.small, i, i+1)
	}
}

// each calls f with every member, ascending, until f returns false.
func (s *set) each(f func(uint32) bool) {
	if s.big != nil {
		s.big.Iterate(f)
		return
	}
	for _, x := range s.small {
		if !f(x) {
			return
		}
	}
}

// runs yields the members, ascending, many at a time: a loop over a slice takes a third of
// what as many calls do. A run is good until the next.
func (s *set) runs() iter.Seq[[]uint32] {
	return func(yield func([]uint32) bool) {
		if s.big == nil {
			yield(s.small)
			return
		}
		var run [1024]uint32
		members := s.big.ManyIterator()
		for n := members.NextMany(run[:]); n > 0; n = members.NextMany(run[:]) {
			if !yield(run[:n]) {
				return
			}
		}
	}
}

// clone returns a set that shares nothing with s.
func (s *set) clone() set {
	if s.big != nil {
		return set{big: &bitmap{s.big.Clone(), s.big.n}}
	}
	return set{small: slices.Clone(s.small)}
}

// join adds the members of o.
func (s *set) join(o *set) {
	switch {
	case s.len() == 0:
		*s = o.clone()
	case s.big != nil && o.big != nil:
		s.big.Or(o.big.Bitmap)
		s.big = newBitmap(s.big.Bitmap)
	case o.big != nil:
		small := s.small
		*s = o.clone()
		s.big.AddMany(small)
		s.big = newBitmap(s.big.Bitmap)
	default:
		for _, x := range o.small {
			s.add(x)
		}
	}
}

// members are all of them, ascending, in a slice of the caller's own.
func (s *set) members() []uint32 {
	if s.big != nil {
		return s.big.ToArray()
	}
	return slices.Clone(s.small)
}

// both yields each member of s and o, ascending.
func (s *set) both(o *set) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		if s.big != nil && o.big != nil {
			roaring.And(s.big.Bitmap, o.big.Bitmap).Iterate(yield)
			return
		}
		few, other := s, o
		if few.big != nil || other.big == nil && len(other.small) < len(few.small) {
			few, other = other, few
		}
		for _, x := range few.small {
			if other.has(x) && !yield(x) {
				return
			}
		}
	}
}

// meets reports whether s and o have a member in common.
func (s *set) meets(o *set) bool {
	if s.big != nil && o.big != nil {
		return s.big.Intersects(o.big.Bitmap)
	}
	for range s.both(o) {
		return true
	}
	return false
}

// intersect keeps the members that are in o as well.
func (s *set) intersect(o *set) {
	switch {
	case s.big == nil:
		s.small = slices.DeleteFunc(s.small, func(x uint32) bool { return !o.has(x) })
	case o.big == nil:
		both := o.clone()
		both.intersect(s)
		*s = both
	default:
		s.big.And(o.big.Bitmap)
		s.shrink()
	}
}

// subtract removes the members of o.
func (s *set) subtract(o *set) {
	switch {
	case s.big == nil:
		s.small = slices.DeleteFunc(s.small, o.has)
	case o.big == nil:
		for _, x := range o.small {
			s.remove(x)
		}
		s.shrink()
	default:
		s.big.AndNot(o.big.Bitmap)
		s.shrink()
	}
}

// shrink counts a bitmap that was cut, and turns one of a few into a slice.
func (s *set) shrink() {
	if s.big = newBitmap(s.big.Bitmap); s.big.n <= smallSet {
		*s = set{small: s.big.ToArray()}
	}
}

// revisions are those of one policy, oldest first. The zero value is empty.
type revisions struct {
	list []revisionAt
	ids  map[uuid.UUID]struct{} // nil: they are few
}

type revisionAt struct {
	seq uint64
	id  uuid.UUID
}

// fewIDs are as quickly compared one by one as looked up.
const fewIDs = 16

func (r *revisions) has(id uuid.UUID) bool {
	if r.ids != nil {
		_, ok := r.ids[id]
		return ok
	}
	return slices.ContainsFunc(r.list, func(x revisionAt) bool { return x.id == id })
}

// add adds a revision that is not there.
func (r *revisions) add(seq uint64, id uuid.UUID) {
	r.list = append(r.list, revisionAt{seq, id})
	if r.ids != nil {
		r.ids[id] = struct{}{}
	} else if len(r.list) > fewIDs {
		r.ids = make(map[uuid.UUID]struct{}, 2*fewIDs)
		for _, x := range r.list {
			r.ids[x.id] = struct{}{}
		}
	}
}

// sort puts what was added in any order by sequence.
func (r *revisions) sort() {
	slices.SortFunc(r.list, func(a, b revisionAt) int { return cmp.Compare(a.seq, b.seq) })
}

// head is the one that was the head at a sequence, of which there was one.
func (r *revisions) head(seq uint64) uuid.UUID { return r.at(seq).id }

func (r *revisions) at(seq uint64) revisionAt {
	i, _ := slices.BinarySearchFunc(r.list, seq+1, func(x revisionAt, seq uint64) int { return cmp.Compare(x.seq, seq) })
	if i == 0 {
		return revisionAt{}
	}
	return r.list[i-1]
}
