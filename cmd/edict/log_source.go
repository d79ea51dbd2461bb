package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/projector"
	"github.com/edictdev/edict/streams"
)

// logFlags say where a command reads the log.
type logFlags struct{ nats, log string }

// logSourceFlags gives a command the flags of those who read the log itself.
func logSourceFlags(cmd *cobra.Command, f *logFlags) {
	cmd.Flags().StringVar(&f.nats, "nats", "", "URL of the NATS server that has the log (EDICT_NATS; default that of the plane at --server)")
	cmd.Flags().StringVar(&f.log, "log", "", "data directory of a stopped plane, in place of --nats")
	fromEnvironment(cmd, "nats")
}

// settle has --log stand above EDICT_NATS.
func (f *logFlags) settle(cmd *cobra.Command) error {
	if f.log == "" {
		return nil
	}
	if cmd.Flags().Changed("nats") && os.Getenv("EDICT_NATS") == "" {
		return usage(cmd, "--nats and --log exclude each other")
	}
	f.nats = ""
	return nil
}

// logSource is the log, open to be read. Close it.
type logSource struct {
	conn  *streams.Conn
	log   *streams.Log
	close func()
}

// openLog opens the log that f names, by default that of the plane c speaks to.
func (a *app) openLog(ctx context.Context, f logFlags, c *client.Client) (*logSource, error) {
	src, err := openConn(ctx, f, c)
	if err != nil {
		return nil, err
	}
	if src.log, err = streams.OpenLog(ctx, src.conn, streams.LogOptions{}); err != nil {
		src.close()
		return nil, err
	}
	return src, nil
}

// openConn connects to the server that has the log; that of a stopped plane is
// started on its files.
func openConn(ctx context.Context, f logFlags, c *client.Client) (*logSource, error) {
	opt := streams.ConnectOptions{URL: f.nats, Name: "edict"}
	closeServer := func() {}
	switch {
	case f.log != "":
		dir := filepath.Join(f.log, "nats")
		if _, err := os.Stat(dir); err != nil {
			return nil, failed(exitUnreadable, "--log %s holds no log: %v", f.log, err)
		}
		server, err := streams.StartServer(streams.ServerOptions{Dir: dir})
		if err != nil {
			return nil, err
		}
		closeServer = server.Close
		opt.Server = server
	case f.nats == "":
		status, err := c.Status(ctx, false)
		if err != nil {
			return nil, err
		}
		if opt.URL = status.Log.NATS; opt.URL == "" {
			return nil, failed(exitUnavailable, "the plane at %s serves no NATS clients: start it with --nats-listen, or stop it and name its data with --log", c.Server())
		}
	}
	conn, err := streams.Connect(ctx, opt)
	if err != nil {
		closeServer()
		return nil, failed(exitUnavailable, "%v", err)
	}
	return &logSource{conn: conn, close: func() { conn.Close(); closeServer() }}, nil
}

// storeOptions are for a read model of the log that is not a worker's.
func (s *logSource) storeOptions() projector.Options {
	return projector.Options{Partitions: s.log.Partitions(), Created: s.log.Created(), First: s.log.First(), Relaxed: true}
}
