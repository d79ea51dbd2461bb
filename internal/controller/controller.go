package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/edictdev/edict/internal/backoff"
)

// Options are what a controller cannot do without, and the rest, whose zero value works.
type Options struct {
	Kubernetes kubernetes.Interface
	Dynamic    dynamic.Interface
	Nodes      Nodes
	Policies   Policies
	Project    uuid.UUID

	// Cluster distinguishes clusters of one plane; "": the uid of namespace kube-system.
	Cluster string
	// LeaseNamespace and LeaseName are the Lease that the writer holds, as Name. Without
	// a name there is none, and the controller writes at once.
	LeaseNamespace, LeaseName, Name string
	// Debounce is how long changes are collected before they are written; 0 is 200 ms.
	Debounce time.Duration
	// StatusEvery is how often one policy's status is written at most; 0 is 30 s.
	StatusEvery time.Duration
	// RoomEvery is how often what the project's quota has no room for is tried again; 0 is
	// 30 s.
	RoomEvery time.Duration
	// ReadEvery is how often what the plane has is read again, and what somebody else changed
	// of ours there is put back; 0 is ten minutes.
	ReadEvery time.Duration
	Metrics   *Metrics
	Log       *slog.Logger
}

// Controller is one of those that may write.
type Controller struct {
	opt     Options
	leading atomic.Bool
	synced  atomic.Bool // the plane was what the cluster said, once
}

// New makes a controller, which does nothing before Run.
func New(opt Options) *Controller {
	if opt.Debounce <= 0 {
		opt.Debounce = 200 * time.Millisecond
	}
	if opt.StatusEvery <= 0 {
		opt.StatusEvery = 30 * time.Second
	}
	if opt.RoomEvery <= 0 {
		opt.RoomEvery = 30 * time.Second
	}
	if opt.ReadEvery <= 0 {
		opt.ReadEvery = 10 * time.Minute
	}
	if opt.Metrics == nil {
		opt.Metrics = NewMetrics(nil)
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	return &Controller{opt: opt}
}

// Ready says why the controller is not of use yet: it leads, and the plane is not what
// the cluster says yet. One that waits for the Lease is ready.
func (c *Controller) Ready() error {
	if c.leading.Load() && !c.synced.Load() {
		return errors.New("the plane is not yet what the cluster says")
	}
	return nil
}

// Run works until ctx ends, and then returns nil.
func (c *Controller) Run(ctx context.Context) error {
	cluster, err := c.cluster(ctx)
	if err != nil || ctx.Err() != nil {
		return err
	}
	c.opt.Cluster = cluster
	if c.opt.LeaseName == "" {
		return c.lead(ctx)
	}
	for ctx.Err() == nil {
		if err := c.compete(ctx); err != nil {
			return err
		}
	}
	return nil
}

// cluster is the name of the cluster. Until it is known nothing has one.
func (c *Controller) cluster(ctx context.Context) (id string, err error) {
	if c.opt.Cluster != "" {
		return c.opt.Cluster, nil
	}
	again := patience()
	for {
		ns, err := c.opt.Kubernetes.CoreV1().Namespaces().Get(ctx, "kube-system", metav1.GetOptions{})
		if err == nil {
			return string(ns.UID), nil
		}
		c.opt.Log.Warn("the cluster does not answer yet", "error", err)
		if again.Pause(ctx) != nil {
			return "", nil
		}
	}
}

// Times of the Lease: who does not renew it for leaseFor is taken for dead, and stops
// writing itself before that.
const (
	leaseFor   = 15 * time.Second
	leaseRenew = 10 * time.Second
	leaseTry   = 2 * time.Second
)

// compete waits for the Lease and leads while it holds.
func (c *Controller) compete(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var term term
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: c.opt.LeaseNamespace, Name: c.opt.LeaseName},
			Client:     c.opt.Kubernetes.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: c.opt.Name},
		},
		LeaseDuration: leaseFor, RenewDeadline: leaseRenew, RetryPeriod: leaseTry,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { // in a goroutine of its own
				term.serve(func() error {
					defer stop() // whoever cannot go on gives the Lease away
					return c.lead(ctx)
				})
			},
			OnStoppedLeading: func() {},
			OnNewLeader: func(name string) {
				c.opt.Log.Info("the Lease is held", "worker", name)
			},
		},
	})
	if err != nil {
		return fmt.Errorf("lease %s/%s: %w", c.opt.LeaseNamespace, c.opt.LeaseName, err)
	}
	elector.Run(ctx)
	stop()
	return term.end()
}

// term is the time for which the Lease is held, at most one. It may be over before whoever
// leads has begun, and then he does not begin.
type term struct {
	mu     sync.Mutex
	over   bool
	failed error
}

// serve leads, unless the term is over.
func (t *term) serve(lead func() error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over {
		t.failed = lead()
	}
}

// end returns once nobody leads, nor will, with what made him give up.
func (t *term) end() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	return t.failed
}

// lead watches the cluster and writes, until ctx ends.
func (c *Controller) lead(ctx context.Context) error {
	c.leading.Store(true)
	c.opt.Metrics.leads(true)
	c.opt.Log.Info("writing the policies of a cluster", "cluster", c.opt.Cluster, "project", c.opt.Project)
	g, ctx := errgroup.WithContext(ctx)
	view := newView(c.opt)
	nodes := newNodeWriter(c.opt, view)
	policies := newPolicyWriter(c.opt, view)
	defer func() {
		nodes.room.stop()
		policies.room.stop()
		c.leading.Store(false)
		c.synced.Store(false)
		c.opt.Metrics.leads(false)
	}()
	g.Go(func() error { return view.run(ctx) })
	g.Go(func() error {
		if !view.wait(ctx) {
			return nil
		}
		// Pods come before policies: what a policy selects is there when it is.
		if !nodes.begin(ctx) || !policies.begin(ctx) {
			return nil
		}
		c.synced.Store(true)
		c.opt.Log.Info("the plane has what the cluster says", "nodes", nodes.count(), "policies", policies.count())
		g.Go(func() error { nodes.run(ctx); return nil })
		g.Go(func() error { policies.run(ctx); return nil })
		g.Go(func() error { policies.tell(ctx); return nil })
		return nil
	})
	if err := g.Wait(); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// patience is how long to wait before something is tried again.
func patience() backoff.Backoff {
	return backoff.Backoff{Least: 500 * time.Millisecond, Most: 30 * time.Second}
}

// each calls write whenever something changed, with what comes together with it, and read every
// ReadEvery, until ctx ends or one of them says so.
func (c *Options) each(ctx context.Context, changed <-chan struct{}, write, read func() bool) {
	again := time.NewTicker(c.ReadEvery)
	defer again.Stop()
	for goes := true; goes; {
		select {
		case <-changed:
			goes = backoff.Sleep(ctx, c.Debounce) == nil && write()
		case <-again.C:
			goes = read()
		case <-ctx.Done():
			return
		}
	}
}

// insist does something until it is done, and reports whether ctx goes on.
func (c *Options) insist(ctx context.Context, what string, do func() error) bool {
	again := patience()
	for {
		err := do()
		if ctx.Err() != nil {
			return false
		}
		if err == nil {
			return true
		}
		c.Metrics.failed(what)
		wait := again.Next()
		c.Log.Warn("tried again later", "detail", what, "error", err, "pause_seconds", wait.Round(time.Millisecond).Seconds())
		if backoff.Sleep(ctx, wait) != nil {
			return false
		}
	}
}
