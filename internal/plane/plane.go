// Package plane assembles one process of the plane: the log and its server,
// the fold, the relay and the API, opened in the order they need each other
// and stopped in the reverse one. Open is that order: each part is made once, of
// parts that are there already. What each part does is its own package's
// business.
//
// Package github.com/edictdev/edict/plane is the door for other programs.
package plane

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/admission"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/convergence"
	"github.com/edictdev/edict/internal/datadir"
	"github.com/edictdev/edict/internal/disk"
	"github.com/edictdev/edict/internal/integrity"
	"github.com/edictdev/edict/internal/keyring"
	"github.com/edictdev/edict/internal/listener"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/relay"
	"github.com/edictdev/edict/internal/rollout"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/ui"
	"github.com/edictdev/edict/internal/worker"
	"github.com/edictdev/edict/policy"
)

// Plane is one process with everything open. Run starts it, Close ends it.
type Plane struct {
	opt     Options
	log     *slog.Logger
	closers []func() // to be called from the last to the first

	auth  *listener.Auth
	found *datadir.Found // at the start
	alarm *integrity.Alarm
	disk  *disk.Guard
	pace  *disk.Pace // of the log
	servers
	logs
	keys        *keyring.Manager
	metrics     *api.Metrics
	page        http.Handler // of metrics
	readModel   *datadir.Store
	store       *projector.Projector
	listeners   listener.Listeners
	progress    *relay.Progress
	worker      *worker.Worker
	monitor     *integrity.Monitor
	tables      *snapshot.Tables
	relay       *relay.Relay
	checkpoints *snapshot.Checkpointer
	compactor   *snapshot.Compactor
	history     *snapshot.History
	tracker     *convergence.Tracker
	fleet       *convergence.Monitor
	rollouts    *rollout.Controller
	decided     *admission.DecisionLog // nil: decisions are not kept
	admitter    *admission.Registry
	quota       access.Quota
	excess      *access.Excess
	failures    *access.Failures
	registry    *access.Registry // nil: access is not configured
	sessions    *access.Sessions // of browsers
	handler     http.Handler
	admin       http.Handler // of operators' routes; nil: with the rest
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
	opt = opt.withDefaults()
	p := &Plane{opt: opt, log: opt.Log, alarm: integrity.NewAlarm(opt.Log)}
	if err := p.open(ctx); err != nil {
		p.Close()
		return nil, err
	}
	if p.conn.Durability() == streams.Relaxed {
		p.log.Warn("durability is relaxed: a power failure may take acknowledged writes of the last two minutes")
	}
	return p, nil
}

// open makes sure that nothing stands against the start, connects, and opens all
// that stands on the connection.
func (p *Plane) open(ctx context.Context) (err error) {
	if p.auth, p.found, err = preflight(ctx, p.opt, p.onClose); err != nil {
		return err
	}
	if err := p.opt.dir().Make(); err != nil {
		return err
	}
	err = p.opt.awaitLeader(ctx, func() (err error) {
		p.servers, err = connect(ctx, p.opt, p.auth, p.onClose)
		return err
	})
	if err != nil {
		return err
	}
	p.disk = newDisk(p.opt, p.server)
	defer context.AfterFunc(ctx, p.disk.Release)()
	for _, step := range []func(context.Context) error{p.openLog, p.openModel, p.openDelivery, p.openAPI} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
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
func (p *Plane) Addresses() Addresses {
	return Addresses{HTTP: listener.Addr(p.listeners.HTTP), Admin: listener.Addr(p.listeners.Admin), NATS: p.url, Durability: p.conn.Durability()}
}

// newDisk guards the disk below the data directory, and the embedded server if
// there is one.
func newDisk(o Options, server *streams.Server) *disk.Guard {
	if o.disk != nil {
		return o.disk
	}
	opt := o.diskOptions(o.dir())
	if server != nil { // not a nil server in an interface
		opt.Server, opt.LogDir = server, o.dir().NATS()
	}
	return disk.NewGuard(opt)
}

// openLog opens the log with what belongs to it, and the keys.
func (p *Plane) openLog(ctx context.Context) error {
	err := p.opt.awaitLeader(ctx, func() (err error) {
		p.logs, err = openLogs(ctx, p.opt, p.found, p.servers)
		return err
	})
	if err == nil {
		err = p.opt.checkAnnounced(p.stream.Partitions())
	}
	if err != nil {
		return err
	}
	p.pace = disk.NewPace(disk.PaceOptions{Log: p.stream, Logger: p.log, SeqAt: func(ctx context.Context, at time.Time) (uint64, error) {
		return snapshot.SeqAt(ctx, p.stream, at)
	}})
	p.keys, err = keyring.Load(keyring.Options{
		Files: p.opt.keyFiles(), Log: p.stream, Stopped: p.alarm.Raised, LeastTransition: p.opt.leastTransition, Logger: p.log,
		Open: keyring.BucketOn(p.conn),
	})
	if err != nil {
		return err
	}
	return p.keys.Open(ctx)
}

// openModel opens the read model, which is the one that the log confirms.
func (p *Plane) openModel(ctx context.Context) (err error) {
	p.metrics, p.page = api.NewMetricsPage(p.opt.Version, p.conn.Durability())
	fold := p.metrics.Projector()
	p.excess = access.NewExcess(p.log, nil)
	p.excess.First = cmp.Or(p.opt.firstShutOut, p.excess.First)
	if p.server != nil && p.auth.Guard() != nil {
		fold.Unapplied, fold.Ours = p.excess.Unapplied, p.ours
	}
	if p.opt.Tracing != nil {
		fold.Traced = p.opt.Tracing.Folded
	}
	p.readModel = datadir.NewStore(datadir.StoreOptions{
		Found: p.found, Conn: p.conn, Log: p.stream, Fold: disk.BackpressuredLog{Log: p.stream, Guard: p.disk},
		Store: p.storeOptions(), Trust: p.keys.Was, YesDelete: p.opt.YesDelete, Logger: p.log,
	})
	if err := integrity.Advise(p.opt.awaitLeader(ctx, func() error { return p.found.CheckEnd(ctx, p.stream) })); err != nil {
		return err
	}
	if err := p.readModel.Prepare(ctx); err != nil {
		return err
	}
	store, err := p.readModel.Open(ctx, fold)
	if err != nil {
		return integrity.Advise(err)
	}
	p.onClose(func() {
		if err := store.Close(); err != nil {
			p.log.Warn("the read model did not close cleanly; it recovers by itself", "error", err)
		}
	})
	p.store = store
	return integrity.Advise(p.opt.awaitLeader(ctx, func() error { return store.Verify(ctx, p.stream) }))
}

// ours reports whether the API appended an event, of those that were just sent: what is not
// applied of these is no producer's doing. Anybody may send a header of the mark's name.
func (p *Plane) ours(m *streams.Message) bool {
	if m.Get(streams.HeaderMark) == "" || !p.excess.Heeds(m.Time) {
		return false
	}
	_, proved := p.marker.Marked(m)
	return proved
}

// storeOptions tie a store to the log.
func (p *Plane) storeOptions() projector.Options {
	return projector.Options{
		Partitions: p.stream.Partitions(), Created: p.stream.Created(), First: p.stream.First(),
		Base: p.stream.Base(), Past: p.opt.Past, PastBytes: p.opt.PastBytes,
		Log: p.log, Full: p.disk.WaitOut, Headroom: p.disk.HasHeadroom,
		Links: p.witness.Links(),
	}
}

// openDelivery makes what serves nodes and what divides the work among workers, and
// listens: the lease says where this worker answers.
func (p *Plane) openDelivery(context.Context) (err error) {
	if !p.opt.NoAPI {
		p.opt.Access.WarnExposed(p.log)
		if p.listeners, err = p.opt.addresses().Listen(p.opt.Access.Exposable()); err != nil {
			return err
		}
		p.onClose(p.listeners.Close)
	}
	p.progress = &relay.Progress{}
	if p.worker, err = p.newWorker(); err != nil {
		return err
	}
	p.monitor = integrity.NewMonitor(integrity.Options{
		Alarm: p.alarm, Witness: p.witness, Log: p.stream, Fold: p.store, Conn: p.conn, Leads: p.worker.Leads,
		Origin: func(ctx context.Context) error { return snapshot.OriginStands(ctx, p.conn, p.stream) },
		Every:  p.opt.witnessEvery, Logger: p.log, Serving: !p.opt.NoAPI,
	})
	p.tables = snapshot.NewTables(p.store, snapshot.TableOptions{Capacity: p.opt.TableEntries})
	p.relay = p.newRelay()
	leads, writable := p.worker.Leads, p.disk.Writable
	p.checkpoints = snapshot.NewCheckpointer(snapshot.CheckpointerOptions{
		Conn: p.conn, Created: p.stream.Created(), Store: p.store, Scratch: p.opt.dir().Checkpoint(), Worker: p.opt.Name,
		Schedule: p.opt.Snapshots, Due: func() bool { return leads() && writable() == nil }, Log: p.log,
	})
	p.onClose(p.checkpoints.Close) // a request for one may have outlived its server
	p.compactor = snapshot.NewCompactor(p.compaction())
	p.onClose(p.compactor.Close) // likewise
	return p.openHistory()
}

// apartOptions are those of a store that is folded apart from the worker's own.
func (p *Plane) apartOptions() projector.Options {
	store := p.storeOptions()
	store.Full = p.disk.WaitBriefly
	return store
}

// openHistory makes what answers about the past.
func (p *Plane) openHistory() (err error) {
	from := snapshot.Beginnings{Conn: p.conn, Log: p.stream, Store: p.apartOptions, Trust: p.keys.Was}
	p.history, err = snapshot.NewHistory(snapshot.HistoryOptions{
		Dir: p.opt.dir().Past(), Nearest: from.Nearest, Open: from.Open, Begins: p.stream.Begins, Live: p.store, Room: p.disk.HasHeadroom,
		Tables: snapshot.TableOptions{Capacity: p.opt.TableEntries, CacheBytes: 8 << 20, Workers: 1}, Logger: p.log,
	})
	if err != nil {
		return &datadir.UnusableError{What: "--data", Err: err}
	}
	p.onClose(p.history.Close) // likewise
	return nil
}

func (p *Plane) compaction() snapshot.CompactorOptions {
	store := p.apartOptions()
	store.Headroom = nil // what it makes is thrown away
	opt := snapshot.CompactorOptions{
		Conn: p.conn, Log: p.stream, Live: p.store, Store: store, Scratch: p.opt.dir().Compaction(), Worker: p.opt.Name,
		Signer: p.keys.Ring().Current, Trust: p.keys.Was, Links: p.monitor.Confirm, Logger: p.log,
	}
	if p.server != nil && p.conn.Durability() == streams.Relaxed {
		opt.Sync = p.opt.dir().SyncNATS
	}
	return opt
}

func (p *Plane) newWorker() (*worker.Worker, error) {
	compare := integrity.Comparer{Alarm: p.alarm, Fold: p.store, Name: p.opt.Name, Log: p.log}
	return worker.New(worker.Options{
		Dir: p.opt.dir(), Name: p.opt.Name, HTTP: listener.Addr(p.listeners.HTTP), Partitions: p.stream.Partitions(), Announce: p.opt.Announce, LeaseTTL: p.opt.LeaseTTL,
		Log: p.stream, Fold: p.store, Keys: p.keys, Progress: p.progress, Damaged: p.alarm.Raised, Compare: compare.Compare, Logger: p.log,
		Open: worker.LeasesOn(p.conn, p.server != nil),
	})
}

func (p *Plane) newRelay() *relay.Relay {
	store := p.store
	opt := relay.Options{
		Partitions: p.stream.Partitions(), HubBytes: p.opt.HubBytes, Metrics: p.metrics, Log: p.log,
		Head: p.stream.Head, Reached: p.stream.Reached, Confirmed: p.monitor.Confirmed, Tables: snapshot.NewWatch(store, p.tables, p.log),
		Dialect: func(id policy.NodeID) (d policy.Dialect) {
			store.Read(func(v *projector.View) { d = v.Dialect(id) })
			return d
		},
		Publish: relay.PublishOptions{Wire: p.wire}, Progress: p.progress,
	}
	if p.opt.Tracing != nil {
		opt.Traced = p.opt.Tracing.Announced
	}
	if p.worker.Publishes() {
		opt.Publish.Listeners, opt.Publish.Marks, opt.Publish.Share = streams.NewListeners(p.wire), p.worker.Mark, p.worker.Share()
	}
	return relay.New(store, p.keys.Ring(), p.stream.Created(), opt)
}

// openAPI makes what the API stands on beside the relay, and the API.
func (p *Plane) openAPI(ctx context.Context) (err error) {
	p.tracker = convergence.New(convergence.Options{
		Model: p.store, Events: p.stream, Metrics: p.metrics, Log: p.log, Open: convergence.ReportsOn(p.conn),
		Leads: func() bool { return p.worker.Leads() && p.alarm.Raised() == nil },
	})
	p.fleet = convergence.NewMonitor(p.tracker, p.metrics.Streams)
	p.rollouts = rollout.New(rollout.Options{
		Model: p.store, Reports: p.tracker, Log: p.stream, Metrics: p.metrics, Logger: p.log,
		Due:   func() bool { return p.worker.Leads() && p.disk.Writable() == nil && p.alarm.Raised() == nil },
		Clock: time.Now,
	})
	judge := admission.RegistryOptions{Metrics: p.metrics.Admission()}
	if p.decisions != nil {
		p.decided = admission.NewDecisionLog(admission.DecisionLogOptions{
			To: p.decisions, Worker: p.opt.Name, Mask: p.opt.Decisions.Mask, Writable: p.disk.Writable, Count: p.metrics.DecisionLogged, Log: p.log,
		})
		judge.Decided = p.decided.Decided
	}
	p.admitter = admission.NewRegistry(p.store, judge)
	p.quota = access.Quota{Model: p.store, Bytes: p.opt.ProjectBytes, Log: p.log}
	p.failures = listener.NewFailures(p.metrics.CredentialsRefused)
	if p.registry, err = p.auth.Open(ctx, p.store, p.failures, p.quota.Exceeded, p.excess); err != nil {
		return err
	}
	if p.sessions, err = access.NewSessions(p.marker.Derive("sessions of browsers"), nil); err != nil {
		return err
	}
	deps := p.deps()
	p.metrics.Watch(deps)
	if p.listeners.Admin == nil {
		p.handler, err = ui.Handler(api.New(deps), api.TakesGzip)
		return err
	}
	front, admin := api.Split(deps, listener.Addr(p.listeners.HTTP), listener.Addr(p.listeners.Admin))
	if p.handler, err = ui.Handler(front, api.TakesGzip); err == nil {
		p.admin, err = ui.Handler(admin, api.TakesGzip)
	}
	return err
}
