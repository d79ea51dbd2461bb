package projector

import "strings"

// slab makes many small values, none of which is let go of before all others: one after the
// other in memory, which takes less of it and of the time that they would take one by one.
type slab[T any] struct{ free []T }

const slabLen = 1024

func (s *slab[T]) next() *T {
	if len(s.free) == 0 {
		s.free = make([]T, slabLen)
	}
	x := &s.free[0]
	s.free = s.free[1:]
	return x
}

// texts is slab for short texts.
type texts struct{ all strings.Builder }

const textsLen = 64 << 10

// text is a copy of b.
func (t *texts) text(b []byte) string {
	if t.all.Len()+len(b) > t.all.Cap() {
		t.all = strings.Builder{}
		t.all.Grow(max(textsLen, len(b)))
	}
	from := t.all.Len()
	_, _ = t.all.Write(b)
	return t.all.String()[from:]
}
