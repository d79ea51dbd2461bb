package projector

import (
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
)

// smallSet is the size up to which a set is a sorted slice: most label sets
// have a node or two, and a bitmap costs more than it saves there.
const smallSet = 24

// set is a set of ordinals. The zero value is empty.
type set struct {
	small []uint32
	big   *roaring.Bitmap
}

func (s *set) len() int {
	if s.big != nil {
		return int(s.big.GetCardinality())
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
		s.big.Add(x)
		return
	}
	i, ok := slices.BinarySearch(s.small, x)
	if ok {
		return
	}
	s.small = slices.Insert(s.small, i, x)
	if len(s.small) > smallSet {
		s.big = roaring.New()
		s.big.AddMany(s.small)
		s.small = nil
	}
}

// remove keeps a bitmap a bitmap: a set that was large tends to be so again.
func (s *set) remove(x uint32) {
	if s.big != nil {
		s.big.Remove(x)
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

// addTo adds every member to b.
func (s *set) addTo(b *roaring.Bitmap) {
	if s.big != nil {
		b.Or(s.big)
		return
	}
	b.AddMany(s.small)
}

// clone returns a set that shares nothing with s.
func (s *set) clone() set {
	if s.big != nil {
		return set{big: s.big.Clone()}
	}
	return set{small: slices.Clone(s.small)}
}
