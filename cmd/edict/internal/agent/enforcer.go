//go:build linux

package agent

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/cmd/tree"
	"github.com/edictdev/edict/internal/backoff"
	"github.com/edictdev/edict/internal/enforce"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/node"
	"github.com/edictdev/edict/policy"
)

// DefaultKernelPatience is many times what nft takes for the largest table.
const DefaultKernelPatience = 5 * time.Minute

// Tables is where a node's table comes from; client.Datapath is one.
type Tables interface {
	Table(ctx context.Context, id string, ask client.TableQuery) (client.Table, error)
}

// patient waits for a table so long, and no longer.
type patient struct {
	Tables
	most time.Duration
}

// Table implements Tables.
func (p patient) Table(ctx context.Context, id string, ask client.TableQuery) (client.Table, error) {
	within, cancel := context.WithTimeout(ctx, p.most)
	defer cancel()
	t, err := p.Tables.Table(within, id, ask)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("the plane did not answer within %s; see whether it is stopped or overloaded. It is asked again", p.most)
	}
	return t, err
}

// Reports takes what a node reports; *node.Reporter is one.
type Reports interface {
	Send(rep policy.Report)
	Run(ctx context.Context) error
}

// EnforcerOptions are the settings of an Enforcer.
type EnforcerOptions struct {
	Node   policy.NodeID
	Dir    string
	Server string
	Tables Tables
	Follow node.Options
	Report node.ReporterOptions
	// Reports takes what the node reports; nil: a node.Reporter with Report.
	Reports Reports
	Kernel  enforce.Kernel
	// AuditKernel is where what policies in audit mode would deny is counted; nil:
	// nowhere.
	AuditKernel enforce.Kernel
	// Every is how often the table is asked for, and the kernel looked at, without
	// any event; 0 is 30 s.
	Every time.Duration
	// MaxAge is after which time without a word of the plane the rules are stale;
	// 0 is DefaultMaxAge.
	MaxAge time.Duration
	// Patience bounds the wait for a table; 0 is DefaultPatience. Without it a plane that
	// has stopped, and whose connections stand, would keep the agent from ever looking again.
	Patience time.Duration
	// KernelPatience bounds a run of nft; 0 is DefaultKernelPatience. One that never ends
	// would keep the agent from ever looking again, and from saying so.
	KernelPatience time.Duration
	Metrics        *Metrics // nil: nowhere
	Log            *slog.Logger
	FS             FS // nil: the disk
	Now            func() time.Time
	// Looked hears the status after each look at the plane; nil: nobody does.
	Looked func(Status)
	// Traced hears of each look that followed changes with traces, which it gets as
	// traceparents, once their table is in force or refused; nil: nobody does.
	Traced func(traces []string, began time.Time, err error)
}

// DefaultMaxAge is ten looks.
const DefaultMaxAge = 5 * time.Minute

// DefaultPatience is as long as a pull may take.
const DefaultPatience = time.Minute

// Enforcer keeps the kernel at the table of a node: what the plane serves now,
// else what was applied last.
type Enforcer struct {
	opt      EnforcerOptions
	root     root
	nft      *enforce.Nftables
	follower *node.Follower
	reports  Reports
	audit    *auditor      // nil: nothing is counted
	wake     chan struct{} // has room for one: the plane may have another table
	causes   causes        // of the changes that were heard of since the last look

	kept    []byte            // the table of the last life, which could not be applied; nil: it was, or cannot be read
	spoilt  error             // why it could not be applied or read; nil: it was, or there is none
	ruleset *enforce.Ruleset  // applied last; nil: none was
	etag    string            // of its document, where the plane gave it in this life
	written [sha256.Size]byte // of its document, as it was kept under etag
	right   uint64            // a log sequence at which it was right; 0: the plane did not say
	status  Status
	logged  Status // the status that was logged last

	// drift is what others made of the rules, reported for as long as it takes to look
	// again without being asked: else a change right after it would hide it.
	drift   error
	driftAt time.Time
	lost    error // what others made of the rules, and could not be put right; nil: nothing
}

// OpenEnforcer applies the kept table, and nothing more: no plane is asked. That
// one is damaged, or that the kernel refuses it, is in the status and no error.
func OpenEnforcer(ctx context.Context, opt EnforcerOptions) (*Enforcer, error) {
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.FS == nil {
		opt.FS = tree.Disk{}
	}
	if opt.Every <= 0 {
		opt.Every = 30 * time.Second
	}
	if opt.MaxAge <= 0 {
		opt.MaxAge = DefaultMaxAge
	}
	if opt.Patience <= 0 {
		opt.Patience = DefaultPatience
	}
	if opt.KernelPatience <= 0 {
		opt.KernelPatience = DefaultKernelPatience
	}
	opt.Tables = patient{opt.Tables, opt.Patience}
	opt.Kernel = enforce.Patient(opt.Kernel, opt.KernelPatience)
	if opt.AuditKernel != nil {
		opt.AuditKernel = enforce.Patient(opt.AuditKernel, opt.KernelPatience)
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Metrics == nil {
		opt.Metrics = NewMetrics(nil)
	}
	if opt.Looked == nil {
		opt.Looked = func(Status) {}
	}
	if opt.Traced == nil {
		opt.Traced = func([]string, time.Time, error) {}
	}
	e := &Enforcer{opt: opt, root: root{opt.FS, opt.Dir}, nft: enforce.NewNftables(opt.Kernel), wake: make(chan struct{}, 1)}
	if opt.AuditKernel != nil {
		e.audit = newAuditor(opt)
	}
	opt.Follow.Log, opt.Report.Log = opt.Log, opt.Log
	opt.Follow.Connected, opt.Follow.Tables = e.changed, true
	opt.Follow.Trouble = func(error, time.Duration) { e.changed() }
	e.follower = node.NewFollower(opt.Server, opt.Node, opt.Follow)
	if e.reports = opt.Reports; e.reports == nil {
		e.reports = node.NewReporter(opt.Server, opt.Node, opt.Report)
	}
	e.status = Status{Node: opt.Node, State: StateNone, MaxAgeSeconds: opt.MaxAge.Seconds()}
	if err := e.root.sweep(tableFile, statusFile); err != nil {
		opt.Log.Warn("the status cannot be written", "node", opt.Node, "error", err)
	}
	was := e.begin()
	err := e.again(ctx, was)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		opt.Metrics.looked(e.status)
		return e, nil
	case err != nil && ctx.Err() != nil:
		// It ends, and cut nft off: nobody knows what that did, and what was said last stays.
		if err := e.root.putBack(statusFile, was); err != nil {
			opt.Log.Warn("the status cannot be written", "node", opt.Node, "error", err)
		}
		return e, nil
	}
	e.status.hear(e.follower.StreamError())
	e.logChange()
	return e, nil
}

// take applies a table, as a whole or not at all.
func (e *Enforcer) take(ctx context.Context, text []byte) error {
	table, err := enforce.Parse(e.opt.Node, text)
	if err != nil {
		return err
	}
	ruleset, err := enforce.Render(table)
	if err != nil {
		return err
	}
	if err := e.nft.Apply(ctx, ruleset); err != nil {
		return e.takeBack(ctx, err)
	}
	e.ruleset, e.lost = ruleset, nil
	e.status.apply(table, ruleset.Elements(), e.opt.Now())
	return nil
}

// takeBack has the kernel hold what was applied last, where it took a table and holds it
// otherwise. It returns why that is so.
func (e *Enforcer) takeBack(ctx context.Context, why error) error {
	if !errors.As(why, new(*enforce.MismatchError)) || e.ruleset == nil {
		return why
	}
	if err := e.nft.Apply(ctx, e.ruleset); err != nil {
		return fmt.Errorf("%w; and the table before it could not be put back: %w", why, err)
	}
	e.putRight() // also where others had changed it, and that stood until now
	return why
}

// changed has the plane asked soon.
func (e *Enforcer) changed() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Run follows the node until ctx ends; what is in force then stays. A plane that
// is away, or does not know the node, is asked again.
func (e *Enforcer) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return e.reports.Run(ctx) })
	g.Go(func() error {
		again := backoff.Steady(finalPause)
		for ctx.Err() == nil {
			err := e.follower.Run(ctx, func(ev node.Event) error {
				e.causes.add(ev.Traceparent)
				e.changed()
				return nil
			})
			if err != nil {
				pause := again.Next()
				e.opt.Log.Warn("the plane cannot be followed; trying again", "node", e.opt.Node, "pause_seconds", pause.Round(time.Millisecond).Seconds(), "error", err)
				e.changed() // nobody tells of changes until then
				_ = backoff.Sleep(ctx, pause)
			}
		}
		return nil
	})
	g.Go(func() error { e.keep(ctx); return nil })
	return g.Wait()
}

// keep looks at the plane and the kernel until ctx ends.
func (e *Enforcer) keep(ctx context.Context) {
	tick := time.NewTicker(e.opt.Every)
	defer tick.Stop()
	if e.audit != nil {
		defer e.audit.end()
	}
	for ctx.Err() == nil {
		e.look(ctx)
		select {
		case <-ctx.Done():
		case <-tick.C:
		case <-e.wake:
		}
	}
}

// look brings the kernel to what the plane serves, and says how it went.
func (e *Enforcer) look(ctx context.Context) {
	// Before: what the node is sent from here on may not be in the table. The plane
	// never serves one that lacks what it sent before it was asked.
	rep, known := e.follower.Report()
	began, causes := time.Now(), e.causes.take()
	drift, err := e.refresh(ctx)
	if ctx.Err() != nil {
		return
	}
	var unkept *unkeptError
	if errors.As(err, &unkept) {
		err = nil
	}
	e.traced(causes, began, err)
	e.opt.Metrics.asked(err)
	if err == nil {
		e.status.confirm(e.opt.Now())
	} else {
		e.status.fail(err)
	}
	if e.audit != nil {
		rep.Audited = e.audit.look(ctx, err)
	}
	if known {
		e.say(rep, drift, err)
	}
	e.status.miss(unkept)
	e.status.lost = e.lost != nil
	e.status.hear(e.follower.StreamError())
	e.logChange(causes...)
}

// traced says what became of changes with traces. While the plane gives no table, they
// wait for the next look.
func (e *Enforcer) traced(causes []string, began time.Time, err error) {
	var refused *refusedError
	switch {
	case len(causes) == 0:
	case err != nil && !errors.As(err, &refused):
		e.causes.add(causes...)
	default:
		e.opt.Traced(causes, began, err)
	}
}

// logChange logs what changed since the last call, and writes the status file. A
// full disk is no reason to stop: what is in force is in the kernel. causes are the
// traces of the changes that were looked for.
func (e *Enforcer) logChange(causes ...string) {
	log := e.opt.Log.With("node", e.opt.Node)
	if len(causes) > 0 {
		if t, ok := streams.ParseTrace(causes[len(causes)-1]); ok {
			log = log.With("trace_id", t.ID())
		}
	}
	before, now := e.logged, e.status.At(e.opt.Now())
	if now.Fingerprint != before.Fingerprint {
		log.Info("a table is in force", "version", now.Version)
	}
	switch {
	case now.unkept && !before.unkept:
		log.Warn("the table in force cannot be kept: after a boot the one before it would be in force", "version", now.Version, "error", now.Error)
	case now.Fingerprint != before.Fingerprint:
	case before.unkept && now.Error == "":
		log.Info("the table in force is kept", "version", now.Version)
	case now.lost && !before.lost:
		log.Error("the rules that were applied are not in force any more, and cannot be put back", "version", now.Version, "error", now.Error)
	case now.State == before.State && (now.deaf == before.deaf || now.State != StatePolling) && (now.Error == "") == (before.Error == ""):
	case now.State == StateStale && before.State != StateStale:
		log.Warn("the rules are stale: the plane did not confirm them; they stay in force", "version", now.Version, "error", now.Error)
	case now.State == StateRefused:
		log.Error("a table was refused; the rules in force stay", "version", now.Version, "error", now.Error)
	case now.State == StatePolling && now.deaf:
		log.Warn("the plane's events do not come: its table is asked for now and then", "version", now.Version, "error", now.Error)
	case now.Error != "":
		log.Warn("the plane gave no table; the rules in force stay", "version", now.Version, "error", now.Error)
	default:
		log.Info("the plane confirms the rules in force again", "version", now.Version)
	}
	e.logged = now
	if err := e.keepStatus(); err != nil {
		log.Warn("the status cannot be written", "error", err)
	}
	e.opt.Metrics.looked(now)
	e.opt.Looked(now)
}

// refresh puts right what others made of the rules, and then applies the table that
// the plane serves, also where the one before cannot be put right: it may be why.
// drift says what it put right; nil: nothing.
func (e *Enforcer) refresh(ctx context.Context) (drift, err error) {
	drift, broken := e.restore(ctx)
	// The plane may be away, and what kept the kernel from taking the table at a boot over.
	if e.ruleset == nil && e.kept != nil && e.take(ctx, e.kept) == nil {
		e.kept, e.spoilt = nil, nil
	}
	before := e.ruleset
	err = e.fetch(ctx)
	if broken != nil && e.ruleset == before && !errors.As(err, new(*refusedError)) {
		err = &refusedError{broken}
	}
	if e.lost != nil {
		err = &refusedError{fmt.Errorf("%w; it cannot be put right: %w", e.lost, err)}
	}
	return drift, e.since(ctx, err)
}

// restore has the kernel hold what was applied last.
func (e *Enforcer) restore(ctx context.Context) (drift, err error) {
	found, known, err := e.nft.Drift(ctx)
	if err != nil || e.ruleset == nil || known && found == nil {
		return nil, err
	}
	if found != nil {
		e.lost = found
	}
	if err := e.nft.Apply(ctx, e.ruleset); err != nil {
		if differs := e.nft.Holds(ctx, e.ruleset); errors.As(differs, new(*enforce.MismatchError)) && e.lost == nil {
			e.lost = differs // while the kernel refused a table
		}
		return nil, err
	}
	return e.putRight(), nil // nothing was lost where the last transaction failed
}

// putRight notes that what was applied last is in force. It returns what others had made
// of it; nil: nothing.
func (e *Enforcer) putRight() (drift error) {
	if drift, e.lost = e.lost, nil; drift != nil {
		e.opt.Log.Warn("the kernel held other rules than were applied; they are in force again", "node", e.opt.Node, "version", e.status.Version, "error", drift)
	}
	return drift
}

func (e *Enforcer) fetch(ctx context.Context) error {
	got, err := e.opt.Tables.Table(ctx, string(e.opt.Node), e.ask())
	if err != nil {
		return err
	}
	if got.NotModified {
		e.right = got.LogSeq
		return nil
	}
	if err := e.take(ctx, got.Body); err != nil {
		return &refusedError{err}
	}
	e.right = got.LogSeq
	if err := artifact.ReplaceFile(e.opt.FS, e.root.path(tableFile), got.Body); err != nil {
		return &unkeptError{err}
	}
	e.etag, e.written = got.ETag, sha256.Sum256(got.Body) // else it is asked for, and kept, again
	return nil
}

// refusedError: there is a table, and it is not in force.
type refusedError struct{ err error }

func (e *refusedError) Error() string { return e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }

// RemoveTable takes what an Enforcer did out of the kernel, and forgets the kept
// table. Nothing is enforced then. Where one part of it fails the others are done.
func RemoveTable(ctx context.Context, kernels []enforce.Kernel, dir string) error {
	var failed []error
	for _, k := range kernels {
		if err := enforce.NewNftables(k).Remove(ctx); err != nil {
			failed = append(failed, fmt.Errorf("a table of the agent may still be in the kernel; try again, or remove it yourself (nft delete table inet %s or %s): %w", enforce.TableName, enforce.AuditTableName, err))
		}
	}
	r := root{tree.Disk{}, dir}
	return errors.Join(append(failed, r.fs.RemoveAll(r.path(tableFile)), r.fs.RemoveAll(r.path(statusFile)), r.sweep(tableFile, statusFile), r.fs.SyncDir(dir))...)
}
