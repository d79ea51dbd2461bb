package controller

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/internal/backoff"
)

// paced asks the plane for one thing, and again while it says that there are too many
// requests. What waits gives up nothing that others ask meanwhile.
func (c *Options) paced(ctx context.Context, ask func() error) error {
	again := backoff.Backoff{Least: 100 * time.Millisecond, Most: 2 * time.Second}
	for {
		err := ask()
		var p *client.Problem
		if !errors.As(err, &p) || p.Status != http.StatusTooManyRequests {
			return err
		}
		c.Metrics.failed("too many requests")
		if err := again.Pause(ctx); err != nil {
			return err
		}
	}
}
