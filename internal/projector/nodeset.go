package projector

import (
	"math/bits"
	"slices"
)

// nodeSet is the set of an identity's nodes. Most identities have a node or two
// of a large fleet and keep a set of ordinals. One that has a fair share of the
// fleet keeps a bit vector a partition, the form in which unions cost a few
// nanoseconds for 64 nodes and edges are made. The zero value is empty.
type nodeSet struct {
	few   set
	dense [][]uint64 // nil: few holds the set
	count int        // of dense
}

// A set of more than a few turns dense when it has a member for every two words its
// vectors can have, and back when it has one for every eight: a vector costs at most 64
// bytes a member, and going to and fro needs many events.
const (
	denseLeast = 24
	denseFrom  = 2
	denseUntil = 8
)

func (s *nodeSet) len() int {
	if s.dense != nil {
		return s.count
	}
	return s.few.len()
}

// sole is the only member; ok is false where there are none or several.
func (s *nodeSet) sole() (ordinal uint32, ok bool) {
	if s.dense != nil || len(s.few.small) != 1 {
		return 0, false
	}
	return s.few.small[0], true
}

func (s *nodeSet) add(l *layout, ordinal uint32) {
	if s.dense == nil {
		s.few.add(ordinal)
		if n := s.few.len(); n > denseLeast && n*denseFrom >= l.words {
			s.thicken(l)
		}
		return
	}
	v := vectorAt(s.dense, l.partition(ordinal), int(l.place(ordinal)/64)+1)
	word, bit := &v[l.place(ordinal)/64], uint64(1)<<(l.place(ordinal)%64)
	if *word&bit == 0 {
		*word |= bit
		s.count++
	}
	s.thin(l)
}

func (s *nodeSet) remove(l *layout, ordinal uint32) {
	if s.dense == nil {
		s.few.remove(ordinal)
		return
	}
	v, place := s.dense[l.partition(ordinal)], l.place(ordinal)
	if bit := uint64(1) << (place % 64); int(place/64) < len(v) && v[place/64]&bit != 0 {
		v[place/64] &^= bit
		s.count--
	}
	s.thin(l)
}

func (s *nodeSet) thicken(l *layout) {
	few := s.few
	*s = nodeSet{dense: make([][]uint64, l.parts)}
	few.each(func(o uint32) bool {
		place := l.place(o)
		vectorAt(s.dense, l.partition(o), int(place/64)+1)[place/64] |= 1 << (place % 64)
		s.count++
		return true
	})
}

func (s *nodeSet) thin(l *layout) {
	if s.count*denseUntil >= l.words {
		return
	}
	var few set
	s.each(l, func(o uint32) bool { few.add(o); return true })
	*s = nodeSet{few: few}
}

// each calls f with every member, ascending, until f returns false.
func (s *nodeSet) each(l *layout, f func(uint32) bool) {
	if s.dense == nil {
		s.few.each(f)
		return
	}
	for part, v := range s.dense {
		for i, w := range v {
			for ; w != 0; w &= w - 1 {
				if !f(l.ordinal(part, uint32(i*64+bits.TrailingZeros64(w)))) {
					return
				}
			}
		}
	}
}

// vectorAt is a partition's vector, grown to at least n words.
func vectorAt(vectors [][]uint64, part, n int) []uint64 {
	v := vectors[part]
	if len(v) < n {
		v = slices.Grow(v, n-len(v))
		clear(v[len(v):n])
		v = v[:n]
		vectors[part] = v
	}
	return v
}

// union gathers node sets into one bit vector a partition, in memory that is
// used again for the next one.
type union [][]uint64

func (u union) reset() {
	for i := range u {
		u[i] = u[i][:0]
	}
}

// reserve makes room for every node, where so many of them follow that it is a fair share:
// one clearing takes less than growing word by word.
func (u union) reserve(l *layout, nodes int) {
	if nodes*denseUntil < l.words {
		return
	}
	for part := range u {
		vectorAt(u, part, (len(l.byOrdinal[part])+63)/64)
	}
}

func (u union) one(l *layout, o uint32) {
	part, place := l.partition(o), l.place(o)
	v := u[part]
	if int(place/64) >= len(v) {
		v = vectorAt(u, part, int(place/64)+1)
	}
	v[place/64] |= 1 << (place % 64)
}

func (u union) add(l *layout, s *nodeSet) {
	if s.dense == nil {
		s.few.each(func(o uint32) bool { u.one(l, o); return true })
		return
	}
	for part, v := range s.dense {
		to := vectorAt(u, part, len(v))[:len(v)]
		for i, w := range v {
			to[i] |= w
		}
	}
}
