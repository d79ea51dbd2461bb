package plane

import (
	"context"
	"crypto/tls"
	"errors"
	"syscall"

	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/datadir"
	"github.com/edictdev/edict/internal/integrity"
	"github.com/edictdev/edict/internal/keyring"
	"github.com/edictdev/edict/internal/listener"
	"github.com/edictdev/edict/internal/streams"
)

// servers are where the log is, and the connections to it.
type servers struct {
	server *streams.Server // the embedded one; nil: it is elsewhere
	conn   *streams.Conn
	wire   *streams.Conn // to the same server: what nodes are sent delays nothing else
	url    string        // for NATS clients; empty: none are served
}

// connect starts the embedded server, if there is to be one, and connects.
func connect(ctx context.Context, opt Options, auth *listener.Auth, onClose func(func())) (s servers, err error) {
	to := streams.ConnectOptions{URL: opt.NATS, Name: "edict " + opt.Name, Replicas: opt.Replicas, Log: opt.Log}
	if err := opt.authenticate(&to); err != nil {
		return s, err
	}
	s.url = opt.NATS
	if !opt.external() {
		if s.server, err = startServer(opt, auth); err != nil {
			return s, err
		}
		onClose(s.server.Close)
		to.Server, s.url = s.server, s.server.ClientURL()
	}
	if s.conn, err = streams.Connect(ctx, to); err != nil {
		return s, err
	}
	onClose(s.conn.Close)
	to.Name += " tells nodes"
	if s.wire, err = streams.Connect(ctx, to); err != nil {
		return s, err
	}
	onClose(s.wire.Close)
	return s, nil
}

func startServer(opt Options, auth *listener.Auth) (*streams.Server, error) {
	server, err := streams.StartServer(streams.ServerOptions{
		Dir: opt.dir().NATS(), Listen: opt.NATSListen, Relaxed: opt.Relaxed, Log: opt.Log, TLS: auth.TLS(), Guard: auth.Guard(),
		Connections: natsConnections(),
	})
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, datadir.InUse(err, "--data", opt.Data)
	}
	if err != nil {
		return nil, datadir.InUse(err, "--nats-listen", opt.NATSListen)
	}
	return server, nil
}

// authenticate says what external servers are shown, and what they must show.
func (o Options) authenticate(to *streams.ConnectOptions) error {
	if to.Creds = o.NATSCreds; to.Creds != "" {
		if err := access.CheckNATSCreds(to.Creds); err != nil {
			return &datadir.UnusableError{What: "--nats-creds", Err: err}
		}
	}
	if o.NATSCA != "" {
		pool, err := access.ReadCA(o.NATSCA)
		if err != nil {
			return &datadir.UnusableError{What: "--nats-ca", Err: err}
		}
		to.TLS = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}
	}
	return nil
}

// awaitLeader takes a step of the start again while external servers have no
// leader. Nothing answers until then.
func (o Options) awaitLeader(ctx context.Context, step func() error) error {
	if !o.external() {
		return step()
	}
	return streams.AwaitLeader(ctx, o.Log, step)
}

// logs are the streams of a plane that its worker reads and writes.
type logs struct {
	stream    *streams.Log
	held      uint64          // its last sequence at the start
	marker    *streams.Marker // of the events of this worker
	rejected  *streams.Rejected
	decisions *streams.Decisions // nil: decisions are not kept
	witness   *integrity.Witness
}

// openLogs opens the streams, and makes those that are missing where nothing
// speaks against it.
func openLogs(ctx context.Context, opt Options, found *datadir.Found, s servers) (l logs, err error) {
	if err := found.CheckFolded(ctx, s.conn); err != nil {
		return l, err
	}
	if err := integrity.Advise(streams.MissingLog(ctx, s.conn)); err != nil {
		return l, err
	}
	if err := found.CheckExisting(ctx, s.conn, streams.PublicURLs(s.url)); err != nil {
		return l, err
	}
	if err := keyring.Check(ctx, opt.keyFiles(), keyring.FoundOn(s.conn)); err != nil {
		return l, err
	}
	if l.stream, err = streams.OpenLog(ctx, s.conn, streams.LogOptions{AboveID: found.LeastID()}); err != nil {
		return l, err
	}
	if l.marker, l.held, err = l.stream.MarkFromHead(ctx); err != nil {
		return l, err
	}
	if l.rejected, err = streams.OpenRejected(ctx, s.conn); err != nil {
		return l, err
	}
	if err := streams.WarnOldNodes(ctx, s.conn); err != nil {
		return l, err
	}
	if opt.Decisions.On {
		// Who asked for them gets an error at once when they cannot be kept.
		bounds := streams.DecisionsOptions{MaxAge: opt.Decisions.Age, MaxBytes: opt.Decisions.Bytes}
		if l.decisions, err = streams.OpenDecisions(ctx, s.conn, bounds); err != nil {
			return l, integrity.Advise(err)
		}
	}
	if l.witness, err = integrity.OpenWitness(ctx, s.conn, l.stream, found.Store == nil); err != nil {
		return l, err
	}
	return l, found.FinishRestore(ctx, l.stream, l.witness)
}
