package snapshot

import "container/list"

// keeper keeps what was used last within a bound on its bytes. Whoever has it
// locks it.
type keeper[K comparable, V any] struct {
	max, bytes int
	order      *list.List // of *kept[K, V], last used in front
	at         map[K]*list.Element
}

type kept[K comparable, V any] struct {
	key   K
	value V
	bytes int
}

func newKeeper[K comparable, V any](max int) *keeper[K, V] {
	return &keeper[K, V]{max: max, order: list.New(), at: map[K]*list.Element{}}
}

func (s *keeper[K, V]) get(key K) (v V, ok bool) {
	el, ok := s.at[key]
	if !ok {
		return v, false
	}
	s.order.MoveToFront(el)
	return el.Value.(*kept[K, V]).value, true
}

// find is the value, of those used last the first, that is looked for. It counts as
// used.
func (s *keeper[K, V]) find(is func(V) bool) (v V, ok bool) {
	for el := s.order.Front(); el != nil; el = el.Next() {
		if x := el.Value.(*kept[K, V]); is(x.value) {
			s.order.MoveToFront(el)
			return x.value, true
		}
	}
	return v, false
}

// put keeps a value of about so many bytes, and lets go of those that were not
// used for longest. One that is larger than the bound stays until the next comes.
func (s *keeper[K, V]) put(key K, v V, bytes int) {
	if el, ok := s.at[key]; ok {
		s.remove(el)
	}
	bytes += 256 // about what the list and the map add
	s.at[key] = s.order.PushFront(&kept[K, V]{key, v, bytes})
	s.bytes += bytes
	for s.bytes > s.max && s.order.Len() > 1 {
		s.remove(s.order.Back())
	}
}

// drop lets go of a value, if it is there.
func (s *keeper[K, V]) drop(key K) {
	if el, ok := s.at[key]; ok {
		s.remove(el)
	}
}

func (s *keeper[K, V]) remove(el *list.Element) {
	x := el.Value.(*kept[K, V])
	s.order.Remove(el)
	delete(s.at, x.key)
	s.bytes -= x.bytes
}
