package projector

import (
	"sync"

	"github.com/edictdev/edict/internal/compiler"
)

// payloads counts who needs a payload: the heads and the artifacts that have it.
// It is stored while somebody does. Edges in memory hold their own bytes.
type payloads map[compiler.Fingerprint]int

// take counts one more; fresh is true when the payload must be stored.
func (p payloads) take(fp compiler.Fingerprint) (fresh bool) {
	p[fp]++
	return p[fp] == 1
}

// release counts one less; gone is true when it was the last.
func (p payloads) release(fp compiler.Fingerprint) (gone bool) {
	p[fp]--
	if p[fp] > 0 {
		return false
	}
	delete(p, fp)
	return true
}

// maxCacheBytes bounds the payloads that are kept in memory for whoever resumes, in
// bytes.
const maxCacheBytes = 32 << 20

// cache holds payloads that were asked for lately. A payload is what its
// fingerprint says for ever, so nothing in it is ever out of date.
type cache struct {
	mu         sync.Mutex
	young, old map[compiler.Fingerprint][]byte
	size       int // of young
}

func (c *cache) get(fp compiler.Fingerprint) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b := c.young[fp]; b != nil {
		return b
	}
	b := c.old[fp]
	if b != nil {
		c.add(fp, b)
	}
	return b
}

func (c *cache) put(fp compiler.Fingerprint, b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.young[fp] == nil {
		c.add(fp, b)
	}
}

// add keeps what was used since half of the room was taken; the rest goes.
func (c *cache) add(fp compiler.Fingerprint, b []byte) {
	if c.young == nil || c.size+len(b) > maxCacheBytes/2 {
		c.old, c.young, c.size = c.young, map[compiler.Fingerprint][]byte{}, 0
	}
	c.young[fp] = b
	c.size += len(b)
}
