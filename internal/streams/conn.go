package streams

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/edictdev/edict/internal/wire"
)

// Durability of a server's acknowledgements, as Conn.Durability says it.
const (
	Strict            = "strict"  // on disk, fsynced
	Relaxed           = "relaxed" // in the page cache; fsynced within two minutes
	UnknownDurability = "unknown"
)

// Waits for the server. They bound how long an outcome stays open, not how
// long a caller tries: that is its context.
const (
	connectTimeout = 5 * time.Second
	requestTimeout = 10 * time.Second
	commitTimeout  = 30 * time.Second // a batch of 8 MiB on a slow disk
)

// minMajor.minMinor is the first server with atomic batches (ADR-50).
const minMajor, minMinor = 2, 12

// maxReplicas is the most that a server keeps of a stream.
const maxReplicas = 5

// ConnectOptions names the server: an external one by URL, or an embedded one.
type ConnectOptions struct {
	Token  string      // shown to external servers that ask for one
	Creds  string      // file of credentials for external servers, read at each connect; empty: none
	TLS    *tls.Config // of connections to external servers; nil: as the URL says
	URL    string      // external servers, comma separated; empty: Server
	Server *Server     // embedded, in process
	Name   string      // shown in the server's lists of connections and consumers
	// Replicas of every stream and bucket that is made, 1 to 5; 0 is 1. One that exists with fewer is refused.
	Replicas int
	// GiveUp is how long a connection that was lost is waited for, before it is closed and who
	// waits for the server gets a *ConnectError; 0: for ever.
	GiveUp time.Duration
	Log    *slog.Logger
}

// Conn is a connection that was checked: JetStream is on, the server is new
// enough, its max_payload is known. It reconnects for ever, or for as long as GiveUp says; while
// the server is away, publishing fails at once and following waits.
type Conn struct {
	nc       *nats.Conn
	js       jetstream.JetStream
	name     string // as the server's lists show it
	link     *link
	log      *slog.Logger
	maxBatch int      // messages of an atomic batch
	ahead    int      // messages held ahead of who reads a stream
	behind   uint64   // how many messages of the log are missing at least, where they are read from files
	replicas int      // of what is made, 1 or more
	asked    bool     // somebody said how many
	server   *Server  // embedded; nil: external servers
	writing  *writing // what is written by this process, or through its server
	// refused is true once a server had no room for what was to be stored, and at first,
	// when nobody knows: then Writable asks the server.
	refused atomic.Bool
	// silent is true while the last message for the log got no answer.
	silent atomic.Bool
	// patience is how long Writable waits for the server's word. Tests wait longer, or less.
	patience time.Duration

	// request sends a message and waits for one answer. Tests lose answers here.
	request func(ctx context.Context, m *nats.Msg) (*nats.Msg, error)
}

// Connect connects and checks the server. The error of a server that will not
// do says why and what to change.
func Connect(ctx context.Context, opt ConnectOptions) (*Conn, error) {
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.Replicas < 0 || opt.Replicas > maxReplicas {
		return nil, fmt.Errorf("connect: %d replicas: must be 1..%d", opt.Replicas, maxReplicas)
	}
	c := &Conn{name: opt.Name, link: newLink(opt.GiveUp), log: opt.Log, maxBatch: 1000, ahead: followBuffer, behind: followBehind, replicas: max(1, opt.Replicas), asked: opt.Replicas > 0, writing: &writing{}, patience: roomPatience}
	options := append(c.handlers(opt),
		nats.Name(opt.Name),
		nats.Timeout(connectTimeout),
		nats.MaxReconnects(-1),
		nats.ReconnectBufSize(-1), // a publish into a void must fail, not wait for another server
		nats.PingInterval(10*time.Second),
		nats.MaxPingsOutstanding(2),
	)
	url := opt.URL
	switch {
	case url == "" && opt.Server == nil:
		return nil, errors.New("connect: neither the URL of a NATS server nor an embedded one is given")
	case url == "":
		options = append(options, nats.InProcessServer(opt.Server),
			nats.ReconnectWait(50*time.Millisecond), nats.ReconnectJitter(50*time.Millisecond, 0))
		if opt.Server.opt.Guard != nil {
			options = append(options, nats.Token(opt.Server.secret))
		}
		c.server, c.writing, c.maxBatch = opt.Server, &opt.Server.writing, embeddedMaxBatch
	default:
		options = append(options, nats.ReconnectWait(250*time.Millisecond))
		if opt.Token != "" {
			options = append(options, nats.Token(opt.Token))
		}
		if opt.Creds != "" {
			// Credentials that are over are replaced in their file, sooner or later.
			options = append(options, nats.UserCredentials(opt.Creds), nats.IgnoreAuthErrorAbort())
		}
		if opt.TLS != nil {
			options = append(options, nats.Secure(opt.TLS))
		}
	}
	nc, err := nats.Connect(url, options...)
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		return nil, fmt.Errorf("connect to NATS at %s: %w", where(opt.URL), ctx.Err())
	}
	if err != nil {
		return nil, &ConnectError{Server: where(opt.URL), Err: err}
	}
	c.nc = nc
	c.request = nc.RequestMsgWithContext
	c.refused.Store(true)
	if err := c.check(ctx); err != nil {
		nc.Close()
		return nil, fmt.Errorf("NATS at %s: %w", where(opt.URL), err)
	}
	return c, nil
}

// ConnectError means that a server was not reached, or lets nobody in.
type ConnectError struct {
	Server string // its URL without a password
	Err    error
}

// Error says which server, and why.
func (e *ConnectError) Error() string {
	hint := "; is it running there?"
	switch {
	case errors.Is(e.Err, nats.ErrAuthorization):
		hint = "; the server asks for credentials, and these, or none, are not good there"
	case errors.Is(e.Err, nats.ErrSecureConnWanted):
		hint = "; it speaks no TLS: use nats://, without certificates" // of which one alone asks for TLS, too
	case errors.As(e.Err, new(*tls.CertificateVerificationError)): // it runs there; which authority to trust the caller knows
		hint = ""
	}
	return fmt.Sprintf("connect to NATS at %s: %v%s", e.Server, e.Err, hint)
}

// Unwrap is the client's reason.
func (e *ConnectError) Unwrap() error { return e.Err }

// UnfitError means that a server was reached, and will not do as it is set up, or not with
// these credentials.
type UnfitError struct{ why string }

// Error says what to change.
func (e *UnfitError) Error() string { return e.why }

// where names a server in an error, without the password its URL may hold.
func where(url string) string {
	if url == "" {
		return "the embedded server"
	}
	return wire.ShownServers(url)
}

func (c *Conn) handlers(opt ConnectOptions) []nats.Option {
	giveUp := func(nc *nats.Conn) {
		if nc.IsConnected() {
			return // just in time
		}
		c.link.close(&ConnectError{Server: where(opt.URL), Err: fmt.Errorf("the connection was lost, and did not come back within %v: %w", opt.GiveUp, nats.ErrConnectionClosed)})
		nc.Close()
	}
	return []nats.Option{
		nats.DisconnectErrHandler(func(nc *nats.Conn, err error) {
			c.link.lost(func() { giveUp(nc) })
			if err != nil {
				c.log.Warn("connection to NATS lost", "error", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			c.link.found()
			c.log.Info("connected to NATS again", "server", nc.ConnectedServerName())
		}),
		nats.ClosedHandler(func(*nats.Conn) { c.link.close(nats.ErrConnectionClosed) }),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			subject := ""
			if sub != nil {
				subject = sub.Subject
			}
			c.log.Warn("NATS connection reports an error", "error", err, "subject", subject)
		}),
	}
}

func (c *Conn) check(ctx context.Context) error {
	if err := checkVersion(c.nc.ConnectedServerVersion()); err != nil {
		return err
	}
	js, err := jetstream.New(c.nc)
	if err != nil {
		return err
	}
	c.js = js
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	// A request that is not permitted has no answer: only the connection tells.
	denied := make(chan struct{})
	tell := c.nc.Opts.AsyncErrorCB
	c.nc.SetErrorHandler(func(nc *nats.Conn, sub *nats.Subscription, err error) {
		tell(nc, sub, err)
		if errors.Is(err, nats.ErrPermissionViolation) && ctx.Err() == nil {
			close(denied)
			cancel()
		}
	})
	info, err := js.AccountInfo(ctx)
	c.nc.SetErrorHandler(tell)
	select {
	case <-denied:
		return &UnfitError{"these credentials are not a worker's: they may not use JetStream; make some with edict nats creds worker"}
	default:
	}
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, nats.ErrNoResponders):
		return &UnfitError{"JetStream is off; start the server with -js, or put a jetstream block into its configuration; if it is a leaf node, name the servers that keep the log, for it has none of theirs"}
	case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return &UnfitError{"JetStream is off for this account; enable it in the account's configuration"}
	case err != nil:
		return fmt.Errorf("ask for the JetStream account ($JS.API.INFO): %w", err)
	}
	if l := info.API.Level; l < 2 {
		return &UnfitError{fmt.Sprintf("JetStream API level is %d; edict needs 2 (nats-server %d.%d): upgrade every server of the cluster", l, minMajor, minMinor)}
	}
	return nil
}

// checkVersion refuses a server without atomic batches.
func checkVersion(v string) error {
	if !atLeast(v, minMajor, minMinor) {
		return &UnfitError{fmt.Sprintf("the server is version %q; edict needs nats-server %d.%d or newer (atomic batches): upgrade it", v, minMajor, minMinor)}
	}
	return nil
}

// atLeast reports whether a server's version is that one or newer.
func atLeast(v string, wantMajor, wantMinor int) bool {
	parts := strings.SplitN(strings.TrimPrefix(v, "v"), ".", 3)
	if len(parts) < 2 {
		return false
	}
	major, err1 := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	return err1 == nil && err2 == nil && (major > wantMajor || major == wantMajor && minor >= wantMinor)
}

// Close ends the connection. What was published without an acknowledgement is
// flushed first.
func (c *Conn) Close() {
	if c.nc.IsConnected() {
		_ = c.nc.FlushTimeout(time.Second) // the connection ends either way
	}
	c.nc.Close()
}

// Durability is Strict or Relaxed as the embedded server says now. A client of an
// external server cannot see its sync_interval: UnknownDurability.
func (c *Conn) Durability() string {
	if c.server == nil {
		return UnknownDurability
	}
	return c.server.Durability()
}

// MaxPayload is the size of the largest message the server takes, headers
// included, in bytes.
func (c *Conn) MaxPayload() int { return int(c.nc.MaxPayload()) }

// Replicas is how many servers keep each stream and bucket that is made here.
func (c *Conn) Replicas() int { return c.replicas }

// Connected reports whether the server is reached right now.
func (c *Conn) Connected() bool { return c.nc.IsConnected() }

// during bounds one exchange with the server: by wait, and by the connection it
// is made on, because an answer does not come over another.
func (c *Conn) during(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	stop := context.AfterFunc(c.link.down(), cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// ask sends m and waits for one answer at most wait long. No answer, whatever
// the reason, is ErrNoAnswer; a subject that nobody serves is ErrBusy, because a
// stream's leader may be away for a moment.
func (c *Conn) ask(ctx context.Context, m *nats.Msg, wait time.Duration) (*nats.Msg, error) {
	down := c.link.down()
	rctx, cancel := c.during(ctx, wait)
	defer cancel()
	resp, err := c.request(rctx, m)
	switch {
	case err == nil:
		return resp, nil
	case errors.Is(err, nats.ErrNoResponders):
		return nil, fmt.Errorf("%w: nothing serves subject %s", ErrBusy, m.Subject)
	case errors.Is(err, nats.ErrReconnectBufExceeded):
		return nil, fmt.Errorf("%w: not connected", ErrBusy)
	case errors.Is(err, nats.ErrMaxPayload):
		return nil, fmt.Errorf("%w: %s is larger than max_payload, %d bytes", ErrMessageTooLarge, m.Subject, c.MaxPayload())
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%w: %w", ErrNoAnswer, context.Cause(ctx))
	case down.Err() != nil:
		return nil, fmt.Errorf("%w: connection lost", ErrNoAnswer)
	case errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrBadSubject), errors.Is(err, nats.ErrInvalidMsg):
		return nil, err
	default:
		return nil, fmt.Errorf("%w: %s: %w", ErrNoAnswer, m.Subject, err)
	}
}
