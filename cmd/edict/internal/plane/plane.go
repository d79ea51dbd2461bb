// Package plane assembles one process of the plane: the log and its server,
// the fold, the relay and the API, opened in the order they need each other
// and stopped in the reverse one. What each part does is its own package's
// business.
package plane

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/edictdev/edict/cmd/edict/internal/tracing"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/admission"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/convergence"
	"github.com/edictdev/edict/internal/datadir"
	"github.com/edictdev/edict/internal/disk"
	"github.com/edictdev/edict/internal/integrity"
	"github.com/edictdev/edict/internal/keyring"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/relay"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/internal/streams"
)

// Options say what one process does. Data is required, and HTTP when API is
// set; the rest has a useful zero value.
type Options struct {
	Data string // directory of the log, the read model and the signing key
	Name string // of this worker; empty: the host's name
	// Version of the binary, for metrics.
	Version string

	HTTP       string // host:port of the API, loopback unless Access allows more
	NATSListen string // host:port of the embedded server for native clients, likewise; "" or "none": in process only
	NATS       string // URLs of external servers, comma separated; empty: the embedded one
	NATSCreds  string // file of credentials that they ask for; empty: none
	NATSCA     string // PEM file of the authorities that their certificates are checked against; empty: the system's
	Replicas   int    // of every stream and bucket that is made; 0 is 1
	SigningKey string // PKCS#8 PEM; empty: made in Data
	// NextSigningKey is another key that the worker holds, for a rotation; it goes with SigningKey.
	NextSigningKey string

	NoAPI    bool          // serve no HTTP
	Announce []int         // partitions to publish on NATS; nil: a share of all, with the other workers; empty: none
	LeaseTTL time.Duration // after which a worker that is not heard of is taken for dead; 0: 10 s
	Relaxed  bool          // leave fsync to the operating system

	HubBytes     int           // of changes that wait to be told; 0: relay's choice
	Past         time.Duration // how long it is kept what nodes lost; 0: projector's choice
	PastBytes    int           // at most so much of it; 0: projector's choice
	TableEntries int           // of one node's table; 0: datapath.DefaultCapacity
	MinFree      uint64        // bytes of disk below which writes are refused; 0: none
	Existing     bool          // the plane exists: a start that finds no log is refused, and makes none
	ProjectBytes uint64        // of the log that a project takes in a day before its writes are refused; 0: any number
	YesDelete    bool          // a read model of an older layout is deleted once it is rebuilt

	Snapshots SnapshotOptions
	Access    AccessOptions
	Decisions DecisionOptions

	farBehind uint64 // events behind which the read model is rebuilt in bulk; 0: projector.FarBehind

	// Checked is called once, when nothing stands against a start and nothing
	// was changed yet. Its error ends the start.
	Checked func() error
	// Ready is called once, when everything answers.
	Ready func(Addresses)
	Log   *slog.Logger
	// Tracing records what a change of policy does; nil: nothing does.
	Tracing *tracing.Tracing

	witnessEvery    time.Duration // 0: integrity.DefaultEvery
	leastTransition time.Duration // of a rotation; 0: keyring.LeastTransition
}

// Addresses are where a plane answers.
type Addresses struct {
	HTTP  string // host:port; empty: not served
	Admin string // of operators' routes; empty: with the rest
	NATS  string // URL; empty: not served
	// Durability is what the server does, as far as that can be known.
	Durability string
}

// Plane is one process with everything open. Run starts it, Close ends it.
type Plane struct {
	opt       Options
	log       *slog.Logger
	closers   []func() // to be called from the last to the first
	disk      *disk.Guard
	dir       datadir.Dir
	found     *datadir.Found // at the start
	listener  net.Listener
	entrance  entrance
	conn      *streams.Conn
	wire      *streams.Conn // to the same server: what nodes are told delays nothing else
	stream    *streams.Log
	marker    *streams.Marker
	held      uint64 // the log's last sequence at the start
	rejected  *streams.Rejected
	readModel *datadir.Store
	store     *projector.Projector
	keys      *keyring.Manager
	relay     *relay.Relay
	owner     string // of this process start
	tables    *snapshot.Tables
	alarm     *integrity.Alarm
	witness   *integrity.Witness
	monitor   *integrity.Monitor
	workers   *relay.Workers
	caught    atomic.Bool // the fold is where the log was at the start
	tracker   *convergence.Tracker
	admitter  *admission.Registry

	decisionStream *streams.Decisions     // nil: decisions are not kept
	decisions      *admission.DecisionLog // likewise

	handler http.Handler
	natsURL string
	saving  sync.Mutex // a checkpoint
}

// Run opens a plane, runs it until ctx ends, and closes it.
func Run(ctx context.Context, opt Options) error {
	p, err := Open(ctx, opt)
	if err != nil {
		return err
	}
	defer p.Close()
	return p.Run(ctx)
}

// Open opens every part. After an error nothing is left open.
func Open(ctx context.Context, opt Options) (*Plane, error) {
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.Name == "" {
		opt.Name, _ = os.Hostname() // shown to people only
	}
	p := &Plane{opt: opt, log: opt.Log, alarm: integrity.NewAlarm(opt.Log), dir: datadir.Dir(opt.Data)}
	if err := p.open(ctx); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *Plane) open(ctx context.Context) error {
	if err := p.preflight(ctx); err != nil {
		return err
	}
	if err := p.dir.Make(); err != nil {
		return err
	}
	if err := p.led(p.connect)(ctx); err != nil {
		return err
	}
	p.disk = disk.NewGuard(p.diskOptions(p.dir))
	defer context.AfterFunc(ctx, p.disk.Release)()
	for _, step := range []func(context.Context) error{p.led(p.openStreams), p.openKeys, p.openStore, p.listen} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	p.assemble()
	return nil
}

// leaderPause is how soon servers without a leader are asked again.
const leaderPause = time.Second

// led is a step that is taken again while the servers' JetStream has no leader: a
// worker that ended would only be started again. Nothing answers until then.
func (p *Plane) led(step func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for {
			err := step(ctx)
			if p.opt.NATS == "" || !streams.Leaderless(err) || ctx.Err() != nil {
				return err
			}
			p.log.Warn("JetStream does not answer, and the start waits for it: do most of its servers run?", "error", err)
			select {
			case <-time.After(leaderPause):
			case <-ctx.Done():
				return err
			}
		}
	}
}

// onClose has f called when the plane is closed.
func (p *Plane) onClose(f func()) { p.closers = append(p.closers, f) }

// Close closes what Open opened, in reverse order. Run must have returned.
func (p *Plane) Close() {
	for i := len(p.closers) - 1; i >= 0; i-- {
		p.closers[i]()
	}
	p.closers = nil
}

// Addresses are where the plane answers.
func (p *Plane) Addresses() (a Addresses) {
	a.Durability = p.conn.Durability()
	if p.listener != nil {
		a.HTTP = p.listener.Addr().String()
	}
	if p.entrance.admin != nil {
		a.Admin = p.entrance.admin.Addr().String()
	}
	a.NATS = p.natsURL
	return a
}

func (p *Plane) connect(ctx context.Context) error {
	opt := streams.ConnectOptions{URL: p.opt.NATS, Name: "edict " + p.opt.Name, Replicas: p.opt.Replicas, Log: p.log}
	p.natsURL = p.opt.NATS
	if err := p.showNATS(&opt); err != nil {
		return err
	}
	if opt.URL == "" {
		server, err := streams.StartServer(streams.ServerOptions{
			Dir: p.dir.NATS(), Listen: p.opt.NATSListen, Relaxed: p.opt.Relaxed, Log: p.log, TLS: p.entrance.tls, Guard: p.natsGuard(),
		})
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return datadir.InUse(err, "--data", p.opt.Data)
		}
		if err != nil {
			return datadir.InUse(err, "--nats-listen", p.opt.NATSListen)
		}
		p.onClose(server.Close)
		opt.Server, p.natsURL, p.entrance.nats = server, server.ClientURL(), server
	}
	conn, err := streams.Connect(ctx, opt)
	if err != nil {
		return err
	}
	p.onClose(conn.Close)
	p.conn = conn
	opt.Name += " tells nodes"
	if p.wire, err = streams.Connect(ctx, opt); err != nil {
		return err
	}
	p.onClose(p.wire.Close)
	return nil
}

func (p *Plane) openStreams(ctx context.Context) (err error) {
	if err := p.found.CheckFolded(ctx, p.conn); err != nil {
		return err
	}
	if err := integrity.Advise(streams.MissingLog(ctx, p.conn)); err != nil {
		return err
	}
	if err := p.found.CheckExisting(ctx, p.conn, p.logURL()); err != nil {
		return err
	}
	if p.stream, err = streams.OpenLog(ctx, p.conn, streams.LogOptions{AboveID: p.found.LeastID()}); err != nil {
		return err
	}
	state, err := p.stream.State(ctx)
	if err != nil {
		return err
	}
	p.held = state.Last
	if err := p.openMarker(ctx); err != nil {
		return err
	}
	if p.rejected, err = streams.OpenRejected(ctx, p.conn); err != nil {
		return err
	}
	if err := p.nameOldNodes(ctx); err != nil {
		return err
	}
	if err := p.openDecisions(ctx); err != nil {
		return err
	}
	if p.witness, err = integrity.OpenWitness(ctx, p.conn, p.stream, p.found.Store == nil); err != nil {
		return err
	}
	return p.found.Settle(ctx, p.stream, p.witness)
}

// openMarker has the events of this worker marked as the plane's.
func (p *Plane) openMarker(ctx context.Context) error {
	meta, err := streams.OpenMeta(ctx, p.conn)
	if err != nil {
		return err
	}
	if p.marker, err = streams.OpenMarker(ctx, meta, p.held); err != nil {
		return err
	}
	p.stream.Mark(p.marker)
	return nil
}

// nameOldNodes says once that the stream is there in which older releases kept
// what they told nodes. It is left alone.
func (p *Plane) nameOldNodes(ctx context.Context) error {
	there, err := streams.HasOldNodes(ctx, p.conn)
	if err == nil && there {
		p.log.Warn("the stream of an older edict is not used any more, and takes room and messages: delete it when no worker of that release runs",
			"stream", streams.OldNodesStream)
	}
	return err
}

// diskOptions guard the disk below dir, as which messages name it.
func (p *Plane) diskOptions(dir datadir.Dir) disk.Options {
	opt := disk.Options{Dir: string(dir), Parts: []string{dir.Store(), dir.NATS()}, MinFree: p.opt.MinFree, Log: p.log}
	if p.entrance.nats != nil {
		opt.Server = p.entrance.nats
	}
	return opt
}

// storeOptions tie a store to the log.
func (p *Plane) storeOptions() projector.Options {
	return projector.Options{
		Partitions: p.stream.Partitions(), Created: p.stream.Created(), First: p.stream.First(),
		Base: p.stream.Base(), Past: p.opt.Past, PastBytes: p.opt.PastBytes,
		Relaxed: p.opt.Relaxed, Log: p.log, Full: p.disk.WaitOut, Headroom: p.disk.HasHeadroom,
		Links: p.witness.Links(),
	}
}

func (p *Plane) openStore(ctx context.Context) (err error) {
	metrics, page := p.newMetrics()
	p.readModel = datadir.NewStore(datadir.StoreOptions{
		Found: p.found, Conn: p.conn, Log: p.stream, Fold: p.backpressured(), Store: p.storeOptions(), YesDelete: p.opt.YesDelete, Logger: p.log,
	})
	if err := p.readModel.Prepare(ctx); err != nil {
		return err
	}
	p.store, err = p.readModel.Open(ctx, p.foldMetrics(metrics))
	if err != nil {
		return integrity.Advise(err)
	}
	p.onClose(func() {
		p.saving.Lock() // a request for a checkpoint may have outlived its server
		defer p.saving.Unlock()
		if err := p.store.Close(); err != nil {
			p.log.Warn("the read model did not close cleanly; it recovers by itself", "error", err)
		}
	})
	if err := p.led(func(ctx context.Context) error { return p.store.Verify(ctx, p.stream) })(ctx); err != nil {
		return integrity.Advise(err)
	}
	p.tables = snapshot.NewTables(p.store, snapshot.TableOptions{Capacity: p.opt.TableEntries})
	ropt := relay.Options{
		Partitions: p.stream.Partitions(), HubBytes: p.opt.HubBytes, Metrics: metrics, Log: p.log,
		Head:    p.stream.Head,
		Dialect: p.dialect, Traced: p.told(), Tables: snapshot.NewWatch(p.store, p.tables, p.log),
		Publish: relay.PublishOptions{Wire: p.wire},
	}
	if err := p.openWorkers(&ropt); err != nil {
		return err
	}
	p.monitor = integrity.NewMonitor(integrity.Options{
		Alarm: p.alarm, Witness: p.witness, Log: p.stream, Fold: p.store, Conn: p.conn, Leads: p.leads,
		Every: p.opt.witnessEvery, Logger: p.log, Serving: !p.opt.NoAPI,
	})
	ropt.Confirmed = p.monitor.Confirmed
	p.relay = relay.New(p.store, p.keys.Ring(), p.stream.Created(), ropt)
	p.tracker = p.newTracker(metrics)
	p.newAdmitter(metrics.Admission(), metrics.DecisionLogged)
	p.entrance.failures = access.NewFailures(failuresPerSecond)
	p.entrance.failures.Told = metrics.CredentialsRefused
	if err := p.openAccess(ctx); err != nil {
		return err
	}
	deps := p.deps(metrics, page)
	metrics.Watch(deps)
	if p.opt.Access.Admin == "" {
		p.handler = api.New(deps)
	} else {
		p.handler, p.entrance.handler = api.Split(deps)
	}
	return nil
}

func (p *Plane) listen(context.Context) (err error) {
	if p.opt.NoAPI {
		return nil
	}
	p.warnExposed()
	if p.listener, err = p.listenOn(p.opt.HTTP, "--http"); err != nil || p.opt.Access.Admin == "" {
		return err
	}
	p.entrance.admin, err = p.listenOn(p.opt.Access.Admin, "--admin")
	return err
}

// assemble is what is left once every part is open.
func (p *Plane) assemble() {
	if p.conn.Durability() == streams.Relaxed {
		p.log.Warn("durability is relaxed: a power failure may take acknowledged writes of the last two minutes")
	}
}
