package snapshot

import (
	"container/list"
	"sync"
)

// cacheKey changes whenever the rows of an identity do, so an entry is never
// stale, only unused.
type cacheKey struct {
	identity   uint32
	generation uint64
}

type cacheEntry struct {
	key   cacheKey
	state State
}

// cache keeps the states used last within a bound on their bytes. Of one
// identity only the newest generation stays: nobody asks for an older one but
// a reader that began before it.
type cache struct {
	mu      sync.Mutex
	max     int
	bytes   int
	order   *list.List // of *cacheEntry, last used in front
	entries map[uint32]*list.Element
}

func newCache(max int) *cache {
	return &cache{max: max, order: list.New(), entries: map[uint32]*list.Element{}}
}

func (c *cache) get(key cacheKey) (State, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	el, ok := c.entries[key.identity]
	if !ok || el.Value.(*cacheEntry).key != key {
		return State{}, false
	}
	c.order.MoveToFront(el)
	return el.Value.(*cacheEntry).state, true
}

func (c *cache) put(key cacheKey, s State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el, ok := c.entries[key.identity]; ok {
		if el.Value.(*cacheEntry).key.generation > key.generation {
			return // a slow reader of an older view
		}
		c.remove(el)
	}
	c.entries[key.identity] = c.order.PushFront(&cacheEntry{key, s})
	c.bytes += cost(s)
	for c.bytes > c.max && c.order.Len() > 0 {
		c.remove(c.order.Back())
	}
}

func (c *cache) remove(el *list.Element) {
	e := el.Value.(*cacheEntry)
	c.order.Remove(el)
	delete(c.entries, e.key.identity)
	c.bytes -= cost(e.state)
}

// cost of an entry: its body, and about what the list and the map add.
func cost(s State) int { return len(s.Body) + 256 }
