package controller

import (
	"context"
	"errors"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/edictdev/edict/api/client"
)

// paced asks the plane for one thing, and again while it says that there are too many
// requests. What waits gives up nothing that others ask meanwhile.
func (c *Options) paced(ctx context.Context, ask func() error) error {
	again := wait.Backoff{Duration: 50 * time.Millisecond, Factor: 1.5, Jitter: 1, Steps: 100, Cap: 2 * time.Second}
	for {
		err := ask()
		var p *client.Problem
		if !errors.As(err, &p) || p.Status != http.StatusTooManyRequests {
			return err
		}
		c.Metrics.failed("too many requests")
		if !pause(ctx, again.Step()) {
			return ctx.Err()
		}
	}
}
