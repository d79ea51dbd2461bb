package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/cmd/edict/internal/tracing"
	"github.com/edictdev/edict/cmd/internal/cli"
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
		if err := endTracing(t); err != nil {
			opt.Log.Debug("the last spans were not sent", "error", err)
		}
	}
}

func endTracing(t *tracing.Tracing) error {
	ctx, cancel := context.WithTimeout(context.Background(), tracePatience)
	defer cancel()
	return t.Close(ctx)
}

// traceCommands has every command but those of the plane itself recorded, if the
// environment says so: what it asks the plane belongs to one trace. Those that last as
// long as somebody lets them have no span of their own.
func (a *app) traceCommands(root *cobra.Command) (end func(code int)) {
	done := func(int) {}
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		service := "edict-cli"
		lasts := slices.Contains([]string{"edict agent", "edict node watch"}, cmd.CommandPath())
		switch {
		case slices.Contains([]string{"edict serve", "edict demo"}, cmd.CommandPath()):
			return nil
		case lasts:
			service = "edict-agent"
		}
		t, err := tracing.FromEnvironment(cmd.Context(), tracing.Options{
			Service: service, Instance: hostAndProcess(), Version: version(), Console: cli.Whole(a.stderr),
			Log: slog.New(slog.NewTextHandler(cli.Whole(a.stderr), &slog.HandlerOptions{Level: slog.LevelWarn})),
		})
		if err != nil {
			fmt.Fprintf(a.stderr, "edict: tracing stays off: %v\n", err)
		}
		if t == nil {
			return nil
		}
		a.tracing = t
		ended := func(int) {}
		if !lasts {
			var ctx context.Context
			ctx, ended = t.Command(cmd.Context(), cmd.CommandPath(), os.Getenv("TRACEPARENT"))
			cmd.SetContext(ctx)
		}
		done = func(code int) {
			ended(code)
			_ = endTracing(t) // a loss was reported
		}
		return nil
	}
	return func(code int) { done(code) }
}

// hostAndProcess tells processes of one machine apart.
func hostAndProcess() string {
	host, _ := os.Hostname()
	return strings.TrimPrefix(fmt.Sprintf("%s-%d", host, os.Getpid()), "-")
}

// applied is where a node's part says what it put in force; nil: nobody records it.
func (a *connection) applied(node string) func(traces []string, began time.Time, err error) {
	if a.tracing == nil {
		return nil
	}
	return func(traces []string, began time.Time, err error) { a.tracing.Applied(node, traces, began, err) }
}
