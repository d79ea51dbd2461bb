package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/node"
	"github.com/edictdev/edict/policy"
)

// startReports reports what f received as applied, whenever applied is called, and says
// which reports do not reach the plane. stop sends the reports that still wait.
func (a nodeCommands) startReports(ctx context.Context, server string, hc *http.Client, id policy.NodeID, f *node.Follower) (applied, stop func()) {
	r := node.NewReporter(server, id, node.ReporterOptions{HTTP: hc, Trouble: func(err error, again bool) { a.tellUnreported(id, err, again) }})
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = r.Run(ctx) // it never fails
	}()
	return func() { r.Applied(f) }, func() {
		cancel()
		<-ended
	}
}

// tellUnreported says why the plane does not know what the node applied.
func (a nodeCommands) tellUnreported(id policy.NodeID, err error, again bool) {
	what, then := "a report did not arrive", "not sending it again"
	var status *node.StatusError
	switch refused := errors.As(err, &status); {
	case again:
		then = "sending it again"
	case refused:
		what = "the plane refused a report"
	}
	if status != nil && status.Status == http.StatusForbidden { // who follows a node may not be who speaks for it
		then += "; only node:" + string(id) + "#agent, or plane#admin, may say what a node applied"
	}
	fmt.Fprintf(a.stderr, "%s edict: %s: %s; %s\n", stamp(time.Now()), what, cli.Escaped(explain(err), ""), then)
}
