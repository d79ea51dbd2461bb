package streams

import (
	"cmp"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/edictdev/edict/internal/fault"
)

// Limits of the embedded server.
const (
	embeddedMaxPayload = 8 << 20 // bytes of a message, headers included
	embeddedMaxBatch   = 10_000  // messages of an atomic batch

	// MaxSubscriptions are those of one connection where guests are let in, here
	// and on servers of others. A node needs two; each costs the server memory.
	MaxSubscriptions = 1024

	// MaxProduced are the bytes of a message that a producer may append, headers
	// included, here and on servers of others: a document as large as the API takes,
	// and what an event has around it. A larger release of artifacts takes
	// the API.
	MaxProduced = 1<<20 + 64<<10

	// What a stream may hold between its connections and its store. A message
	// beyond it is dropped, and with it the batch it belongs to, so it lies above
	// all batches that may be in flight: eight of the relay's, one of the log's.
	embeddedMaxBuffered     = 256 << 10
	embeddedMaxBufferedSize = 512 << 20

	// The server would take three quarters of what is free when it starts for
	// the most its streams may ever hold. How full the disk may get is the
	// business of whoever calls Refuse.
	embeddedMaxStore = math.MaxInt64 / 4

	tlsTimeout = 5 * time.Second // of a handshake

	serverStartTimeout = 2 * time.Minute // a million subjects are read in seconds, after a crash in tens of them
)

// ServerOptions has one field that must be set: Dir.
type ServerOptions struct {
	Dir     string       // store directory, made when absent; one server at a time
	Listen  string       // "host:port" for native clients, port 0 takes a free one; "" or "none": in process only
	Relaxed bool         // true: the server's lazy fsync (2 minutes); false: fsync before every acknowledgement
	Log     *slog.Logger // receives the server's own lines; nil: nowhere

	// Guard says who may connect; nil: anybody. TLS is for whoever does over the
	// network; nil: none.
	Guard Guard
	TLS   *tls.Config

	// Connections is how many clients are connected at most, this process included; 0, or more than
	// the server's own limit of 65,536: that many.
	Connections int

	maxBatch int // messages of an atomic batch; 0: embeddedMaxBatch
}

// Server is an embedded nats-server with JetStream.
type Server struct {
	opt   ServerOptions
	lock  *dirLock
	files openFiles
	// secret lets our own connections in where there is a Guard.
	secret   string
	accounts atomic.Pointer[map[Account]*server.Account] // of run
	guests   sync.Map                                    // number of a connection to run → name of its guest
	intake   *intake                                     // nil: there are no guests
	writing  writing                                     // to the log, by guests and by this process

	mu     sync.RWMutex
	run    *server.Server // nil while it is down
	lines  *serverLog     // of run
	listen string         // with the port that was taken
	refuse bool           // what Refuse said last
}

// StartServer starts a server on opt.Dir and returns when it answers. A
// directory that another server uses, and an address that is taken, are
// refused before anything is written.
func StartServer(opt ServerOptions) (*Server, error) {
	if opt.Dir == "" {
		return nil, errors.New("embedded server: no store directory given")
	}
	if opt.Listen == "none" {
		opt.Listen = ""
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(opt.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("embedded server: make the store directory: %w", err)
	}
	lock, err := lockDir(filepath.Join(opt.Dir, lockName))
	if err != nil {
		return nil, fmt.Errorf("embedded server: %w", notLocked(opt.Dir, err))
	}
	s := &Server{opt: opt, lock: lock, listen: opt.Listen, secret: rand.Text()}
	if err := s.start(); err != nil {
		lock.release()
		return nil, err
	}
	if opt.Guard != nil {
		if s.intake, err = startIntake(s); err != nil {
			s.Close()
			return nil, err
		}
	}
	return s, nil
}

func (s *Server) options() (*server.Options, error) {
	o := &server.Options{
		ServerName:            "edict",
		DontListen:            true,
		NoSigs:                true,
		JetStream:             true,
		StoreDir:              s.opt.Dir,
		JetStreamMaxStore:     embeddedMaxStore,
		SyncAlways:            !s.opt.Relaxed && !fault.Always(fault.LazySync),
		MaxPayload:            embeddedMaxPayload,
		StreamMaxBufferedMsgs: embeddedMaxBuffered,
		StreamMaxBufferedSize: embeddedMaxBufferedSize,
		JetStreamLimits:       server.JSLimitOpts{MaxBatchSize: cmp.Or(s.opt.maxBatch, embeddedMaxBatch), MaxBatchInflightPerStream: embeddedOpenBatches, MaxBatchInflightTotal: embeddedOpenBatches},

		// Nearly each message has a subject that the cache has not seen: docs/decisions.md.
		NoSublistCache: true,

		DisableJetStreamBanner: true,
	}
	if 0 < s.opt.Connections && s.opt.Connections < server.DEFAULT_MAX_CONNECTIONS {
		o.MaxConn = s.opt.Connections
	}
	if s.opt.Guard != nil {
		o.CustomClientAuthentication, o.MaxSubs = &admission{s}, MaxSubscriptions
	}
	if s.listen == "" {
		return o, nil
	}
	if s.opt.TLS != nil {
		o.TLSConfig, o.TLS, o.TLSTimeout = s.opt.TLS, true, tlsTimeout.Seconds()
	}
	host, port, err := splitAddress(s.listen)
	if err != nil {
		return nil, fmt.Errorf("embedded server: %w", err)
	}
	o.DontListen, o.Host, o.Port = false, host, port
	return o, nil
}

// splitAddress reads host:port, where port 0 is the server's word for any.
func splitAddress(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, fmt.Errorf("listen address %q is not host:port: %w", address, err)
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("listen address %q: the port must be 0..65535", address)
	}
	if n == 0 {
		return host, server.RANDOM_PORT, nil
	}
	return host, int(n), nil
}

// start brings a server up. The caller holds no lock, or s.mu.
func (s *Server) start() error {
	o, err := s.options()
	if err != nil {
		return err
	}
	// The server itself would find the taken port only after it had opened the
	// store, and report it to its log.
	if !o.DontListen && o.Port != server.RANDOM_PORT {
		probe, err := net.Listen("tcp", s.listen)
		if err != nil {
			return fmt.Errorf("embedded server: cannot listen on %s; free the address or choose another: %w", s.listen, err)
		}
		probe.Close()
	}
	ns, err := server.NewServer(o)
	if err != nil {
		return fmt.Errorf("embedded server: %w", err)
	}
	lines := newServerLog(s.opt.Log)
	ns.SetLoggerV2(lines, false, false, false)
	ns.Start()
	if err := awaitServer(ns, lines); err != nil {
		ns.Shutdown()
		ns.WaitForShutdown()
		return fmt.Errorf("embedded server: did not start: %w", err)
	}
	s.accounts.Store(nil)
	s.guests.Clear()
	if s.opt.Guard != nil {
		if err := s.setUpAccounts(ns); err != nil {
			ns.Shutdown()
			ns.WaitForShutdown()
			return err
		}
	}
	if a, ok := ns.Addr().(*net.TCPAddr); ok && a != nil {
		s.listen = net.JoinHostPort(o.Host, strconv.Itoa(a.Port))
	}
	s.run, s.lines = ns, lines
	if s.refuse {
		return s.limit()
	}
	return nil
}

// awaitServer waits until ns takes connections and its store is open.
func awaitServer(ns *server.Server, lines *serverLog) error {
	deadline := time.Now().Add(serverStartTimeout)
	for !ns.ReadyForConnections(100 * time.Millisecond) {
		if err := lines.failure(); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not ready after %v", serverStartTimeout)
		}
	}
	if err := lines.failure(); err != nil {
		return err
	}
	if !ns.JetStreamEnabled() {
		return errors.New("JetStream did not come up; see the server's log lines")
	}
	return nil
}

// ClientURL is where native clients connect, "" when the server does not listen.
func (s *Server) ClientURL() string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.listen == "" {
		return ""
	}
	if s.opt.TLS != nil {
		return "tls://" + s.listen
	}
	return "nats://" + s.listen
}

// Durability is Strict or Relaxed, in the words of the server that runs: whatever
// it was asked for. It is UnknownDurability while it is down.
func (s *Server) Durability() string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.run == nil {
		return UnknownDurability
	}
	switch c := s.run.JetStreamConfig(); {
	case c == nil:
		return UnknownDurability
	case c.SyncAlways:
		return Strict
	}
	return Relaxed
}

// InProcessConn gives a connection that needs no socket. It fails while the
// server is down, so that a client tries again.
func (s *Server) InProcessConn() (net.Conn, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.run == nil {
		return nil, errors.New("embedded server is down")
	}
	return s.run.InProcessConn()
}

// Restart stops the server and starts it on the same directory and address.
// Connections find it again by themselves. A store that failed (a full disk)
// takes messages again only after this.
func (s *Server) Restart() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock == nil {
		return errors.New("embedded server: restart after close")
	}
	s.stop()
	return s.start()
}

// Close stops the server and returns when its store is closed.
func (s *Server) Close() {
	if s.intake != nil {
		s.intake.close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop()
	if s.lock != nil {
		s.lock.release()
		s.lock = nil
	}
}

func (s *Server) stop() {
	if s.run == nil {
		return
	}
	drain(s.run)
	s.run.Shutdown()
	s.run.WaitForShutdown()
	s.run = nil
}

// maxDrain bounds the wait for requests that a server still serves.
const maxDrain = time.Second

// drain waits until a server serves no request about its streams: one that is
// being made while the server stops is never closed, and what writes its state
// goes on for ever.
func drain(ns *server.Server) {
	const pause = time.Millisecond
	for until := time.Now().Add(maxDrain); time.Now().Before(until); time.Sleep(pause) {
		info, err := ns.Jsz(nil)
		if err != nil || info.API.Inflight == 0 {
			return
		}
	}
}
