package main

import (
	"fmt"
	"net"
	"net/http"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/edictdev/edict/internal/test/s3store"
)

// bucketStore is "bucket": a store that speaks S3, which the commands that follow
// use as its usual clients do.
func bucketStore(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: bucket")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	server := &http.Server{Handler: s3store.New()} //nolint:gosec // of a test
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	ts.Defer(func() {
		ts.Check(server.Close())
		<-ended
	})
	for name, value := range s3store.Env(fmt.Sprintf("http://%s", l.Addr())) {
		ts.Setenv(name, value)
	}
	ts.Setenv("SECRET", s3store.Secret)
}
