package main

import (
	"context"
	"crypto/x509"
	"errors"
	"os"
	"sort"
	"time"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/datadir"
	"github.com/edictdev/edict/internal/integrity"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
)

// logFlags say where a command reads the log.
type logFlags struct {
	nats, log string
	replicas  int  // of what is made; 0 is 1
	running   bool // the command asks the plane, too, and takes no --log
}

// logSourceFlags gives a command the flags of those who read the log itself.
func (a *app) logSourceFlags(cmd *cobra.Command, f *logFlags) {
	cmd.Flags().StringVar(&f.nats, "nats", "", "URL of the NATS server that has the log (EDICT_NATS; default that of the plane at --server)")
	cmd.Flags().StringVar(&f.log, "log", "", "data directory of a stopped plane, in place of --nats")
	fromEnvironment(cmd, "nats")
	a.natsCredsFlag(cmd)
	a.natsContextFlag(cmd, true)
}

// override has --log win over EDICT_NATS.
func (f *logFlags) override(cmd *cobra.Command) error {
	if f.log == "" {
		return nil
	}
	if saysNATS(cmd) {
		return cli.Usage(cmd, "--nats and --log exclude each other")
	}
	f.nats = ""
	return nil
}

// saysNATS reports whether the command line has --nats, and not EDICT_NATS alone, which is
// for all commands.
func saysNATS(cmd *cobra.Command) bool {
	return cmd.Flags().Changed("nats") && os.Getenv("EDICT_NATS") == ""
}

// logSource is the log, open to be read. Close it.
type logSource struct {
	conn  *streams.Conn
	log   *streams.Log
	links []streams.Link // of its witness; none where nobody witnessed it
	close func()
}

// openLog opens the log that f names, by default that of the plane c speaks to.
func (a *app) openLog(ctx context.Context, f logFlags, c *client.Client) (*logSource, error) {
	src, err := a.openConn(ctx, f, c)
	if err != nil {
		return nil, err
	}
	if src.log, err = streams.OpenLog(ctx, src.conn, streams.LogOptions{}); err != nil {
		src.close()
		return nil, err
	}
	_, links, _, err := integrity.FindLinks(ctx, src.conn)
	if err != nil {
		src.close()
		return nil, err
	}
	if err := src.ends(ctx); err != nil {
		src.close()
		return nil, err
	}
	src.links = streams.EffectiveLinks(links)
	return src, nil
}

// ends refuses a log without its last event: who reads it to its end would wait for that for ever.
func (s *logSource) ends(ctx context.Context) error {
	state, err := s.log.State(ctx)
	if err == nil {
		_, err = s.log.Reaches(ctx, state.Last)
	}
	return err
}

// logOfPlane refuses a log that is not the one of the plane c speaks to, whose status it is:
// what is said of the one, or done to it, would be believed of the other.
func logOfPlane(c *client.Client, status resource.Status, log *streams.Log) error {
	if status.Log.Created.Equal(log.Created()) {
		return nil
	}
	return cli.Failed(cli.Conflict, "the plane at %s has another log than the servers of --nats (EDICT_NATS): name those of the plane", c.Address())
}

// lostPatience is how long a command waits for a server that went away while it read: as long
// as one takes to start again. A backup that waited for ever would keep all later ones out.
const lostPatience = time.Minute

// openConn connects to the server that has the log; that of a stopped plane is
// started on its files.
func (a *app) openConn(ctx context.Context, f logFlags, c *client.Client) (*logSource, error) {
	opt := streams.ConnectOptions{URL: f.nats, Name: "edict", Replicas: f.replicas, GiveUp: lostPatience}
	closeServer := func() {}
	switch {
	case f.log != "":
		dir := datadir.Dir(f.log).NATS()
		if _, err := os.Stat(dir); err != nil {
			return nil, cli.Failed(cli.Unreadable, "--log %s holds no log: %v", f.log, err)
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
			otherwise := ", or stop it and name its data with --log"
			if f.running {
				otherwise = ""
			}
			return nil, cli.Failed(cli.Unavailable, "the plane at %s serves no NATS clients: start it with --nats-listen%s", c.Address(), otherwise)
		}
	}
	if opt.Server == nil {
		var err error
		if opt.TLS, err = a.creds.tls(ctx); err != nil {
			return nil, err
		}
		token, err := a.creds.natsToken(opt.URL, opt.TLS)
		if err != nil {
			return nil, err
		}
		opt.Token = token.Now()
		if opt.Creds, err = a.creds.natsFile(); err != nil {
			return nil, err
		}
	}
	conn, err := streams.Connect(ctx, opt)
	if err != nil {
		closeServer()
		if errors.As(err, new(x509.UnknownAuthorityError)) {
			return nil, cli.Failed(cli.Unavailable, "%v; give its certificate's authority with --ca FILE", err)
		}
		return nil, cli.Failed(cli.Unavailable, "%v", err)
	}
	return &logSource{conn: conn, close: func() { conn.Close(); closeServer() }}, nil
}

// storeOptions are for a read model of the log that is not a worker's and is
// folded up to until. What the witness says of later events keeps none back.
func (s *logSource) storeOptions(until uint64) projector.Options {
	n := sort.Search(len(s.links), func(i int) bool { return s.links[i].Seq > until })
	return projector.Options{
		Partitions: s.log.Partitions(), Created: s.log.Created(), First: s.log.First(), Base: s.log.Base(), Links: s.links[:n],
	}
}
