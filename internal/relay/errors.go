package relay

import (
	"context"
	"time"
)

// NotReadyError means that this process cannot serve nodes now; answer 503 with
// Retry-After.
type NotReadyError struct{ Detail string }

func (e *NotReadyError) Error() string { return "not ready: " + e.Detail }

// Pauses between attempts that may succeed later.
const (
	minBackoff = 20 * time.Millisecond
	maxBackoff = 2 * time.Second
)

// sleep returns after d, or when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
