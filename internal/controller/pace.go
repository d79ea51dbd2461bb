package controller

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/internal/backoff"
)

// Codes of the plane's problems.
const (
	tooManyRequests = "too_many_requests" // the principal asks too fast
	quotaExceeded   = "quota_exceeded"    // the project has or adds as much as it may
	overShare       = "project_over_share"
	rolloutUnderWay = "rollout_under_way" // somebody rolls out a revision of the policy
)

// noRoom reports whether the project may not have a thing, or not now. It may have others,
// and it can lose any.
func noRoom(code string) bool { return code == quotaExceeded || code == overShare }

// ofThePolicy are conflicts that one policy has, and that go on however often it is asked
// for. Of others the cause is what we know of the plane, or the project.
var ofThePolicy = []string{rolloutUnderWay, "policy_conflict_error", "invalid_after_patch", "policy_limit"}

// paced asks the plane for one thing, and again while it says that there are too many
// requests. What waits gives up nothing that others ask meanwhile.
func (c *Options) paced(ctx context.Context, ask func() error) error {
	again := backoff.Backoff{Least: 100 * time.Millisecond, Most: 2 * time.Second}
	for {
		err := ask()
		var p *client.Problem
		if !errors.As(err, &p) || p.Status != http.StatusTooManyRequests || p.Code != tooManyRequests {
			return err
		}
		c.Metrics.failed("too many requests")
		if err := again.Pause(ctx); err != nil {
			return err
		}
	}
}

// later is what the plane does not take now, though nothing is wrong with it: all of it
// changes again, together, some time after the first was noted.
type later struct {
	after   time.Duration
	changed func(key string)

	mu    sync.Mutex
	keys  map[string]bool // nil: nothing waits
	timer *time.Timer     // of those that wait last
}

func (l *later) note(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.keys == nil {
		l.keys = map[string]bool{}
		l.timer = time.AfterFunc(l.after, l.now)
	}
	l.keys[key] = true
}

func (l *later) now() {
	l.mu.Lock()
	keys := l.keys
	l.keys = nil
	l.mu.Unlock()
	for key := range keys {
		l.changed(key)
	}
}

// stop lets go of what waits. Nothing is noted any more.
func (l *later) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
	}
}
