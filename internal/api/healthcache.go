package api

import (
	"context"
	"sync"
	"time"

	"github.com/edictdev/edict/api/resource"
)

// healthCache remembers for a moment whether the worker's checks hold: a thousand
// heartbeats ask once.
type healthCache struct {
	mu sync.Mutex
	at time.Time
	ok bool
}

const healthFor = time.Second

func (h *healthCache) healthy(ctx context.Context, check func(context.Context) ([]resource.Check, []string)) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.at) > healthFor {
		_, failed := check(ctx)
		h.at, h.ok = time.Now(), len(failed) == 0
	}
	return h.ok
}
