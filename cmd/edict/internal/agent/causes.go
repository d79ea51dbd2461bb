//go:build linux

package agent

import (
	"slices"
	"sync"
)

// maxCauses bounds the traces that are kept of changes that come together.
const maxCauses = 32

// causes are the traces of changes that are not in force yet, oldest first. It may be
// used from any goroutine.
type causes struct {
	mu   sync.Mutex
	list []string
}

// add notes traceparents; an empty one is none.
func (c *causes) add(traceparents ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range traceparents {
		if t != "" && len(c.list) < maxCauses && !slices.Contains(c.list, t) {
			c.list = append(c.list, t)
		}
	}
}

func (c *causes) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.list
	c.list = nil
	return list
}
