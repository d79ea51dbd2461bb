package main

import (
	"context"
	"net/http"

	"github.com/edictdev/edict/node"
	"github.com/edictdev/edict/policy"
)

// startReports reports what f received as applied, whenever applied is called.
// stop sends the reports that still wait.
func startReports(ctx context.Context, server string, hc *http.Client, id policy.NodeID, f *node.Follower) (applied, stop func()) {
	r := node.NewReporter(server, id, node.ReporterOptions{HTTP: hc})
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
