package main

import (
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/edictdev/edict/artifact"
)

// natsServer is "nats FILE KEY": it runs a NATS server from a configuration until
// the story ends, and makes a key to sign with.
func natsServer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: nats FILE KEY")
	}
	_, err := artifact.LoadOrCreateSigner(ts.MkAbs(args[1]))
	ts.Check(err)
	opt, err := server.ProcessConfigFile(ts.MkAbs(args[0]))
	ts.Check(err)
	opt.NoSigs = true
	s, err := server.NewServer(opt)
	ts.Check(err)
	s.Start()
	ts.Defer(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(30 * time.Second) {
		ts.Fatalf("the NATS server is not ready")
	}
	ts.Setenv("NATS", s.ClientURL())
}
