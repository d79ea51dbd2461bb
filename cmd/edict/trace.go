package main

import (
	"context"
	"os"
	"time"

	"github.com/edictdev/edict/cmd/edict/internal/tracing"
	"github.com/edictdev/edict/internal/plane"
)

// tracePatience is how long a stop waits for the last spans to be sent.
const tracePatience = 2 * time.Second

// trace has the plane recorded, if the environment says so. One that asks for
// what cannot be done costs the traces, never the plane.
func (a serveCommands) trace(ctx context.Context, opt *plane.Options) (stop func()) {
	name := opt.Name
	if name == "" {
		name, _ = os.Hostname()
	}
	t, err := tracing.FromEnvironment(ctx, tracing.Options{
		Instance: name, Version: version(), Console: a.stdout, Log: opt.Log,
	})
	if err != nil {
		opt.Log.Warn("tracing stays off", "error", err)
	}
	if t == nil {
		return func() {}
	}
	opt.Tracing = t
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), tracePatience)
		defer cancel()
		if err := t.Close(ctx); err != nil {
			opt.Log.Debug("the last spans were not sent", "error", err)
		}
	}
}
