package admission

import (
	"sync"
)

// cache keeps what was made of a text, up to so many bytes: of text, and of what was made
// of it, where that says how many it takes. It is two
// generations: when the young one is full it becomes the old one, and what
// nobody asked for since is forgotten.
type cache[V any] struct {
	mu         sync.Mutex
	young, old map[string]V
	bytes      int // in young
	limit      int // of a generation
}

func newCache[V any](limit int) *cache[V] { return &cache[V]{limit: limit, young: map[string]V{}} }

// get returns what the text was made into, or makes it. Two who ask at once may
// both make it; an error is not kept.
func (c *cache[V]) get(text string, produce func() (V, error)) (V, error) {
	if v, ok := c.find(text); ok {
		return v, nil
	}
	v, err := produce()
	if err != nil {
		return v, err
	}
	c.mu.Lock()
	c.keep(text, v)
	c.mu.Unlock()
	return v, nil
}

// find returns what is kept of the text.
func (c *cache[V]) find(text string) (v V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, ok = c.young[text]; !ok {
		if v, ok = c.old[text]; ok {
			c.keep(text, v)
		}
	}
	return v, ok
}

func (c *cache[V]) keep(text string, v V) {
	n := len(text)
	if large, ok := any(v).(interface{ bytes() int }); ok {
		n += large.bytes()
	}
	if c.bytes += n; c.bytes > c.limit {
		c.old, c.young, c.bytes = c.young, map[string]V{}, n
	}
	c.young[text] = v
}
