// Package agent keeps the install root of a node: it follows what the plane
// released for the node, judges it by the node's own trust, and puts a set in
// the place of the last one as a whole. The plane carries; only the signers
// that the node trusts decide.
package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/cmd/tree"
	"github.com/edictdev/edict/internal/backoff"
	"github.com/edictdev/edict/node"
	"github.com/edictdev/edict/policy"
)

// Options are the settings of an agent.
type Options struct {
	Node   policy.NodeID
	Dir    string // the install root, which holds a trust pin
	Server string
	Follow node.Options
	// OnChange is called after a set was installed, never twice at once and never
	// while a set is being installed. One that failed, or that a crash cut off, is
	// called again. Nil: nobody is.
	OnChange func(ctx context.Context, version uint64) error
	// Retry is the pause before OnChange is called again after it failed; it doubles
	// up to a minute. 0 is a second.
	Retry time.Duration
	// Traced hears of each set that was offered because of a change with a trace, which
	// it gets as traceparent, once that set is installed or is not; nil: nobody does.
	Traced func(traces []string, began time.Time, err error)
	// Refused hears why a set was refused; nil: only Log does.
	Refused func(error)
	Metrics *Metrics // nil: nowhere
	Log     *slog.Logger
	FS      FS // nil: the disk
}

// FS is what an agent asks of a file system.
type FS interface {
	tree.FS
	ReadFile(name string) ([]byte, error)
	Sub(dir string) fs.FS
}

// ConfigError is a configuration that the agent refuses: starting again cannot
// help.
type ConfigError struct{ Err error }

// Error is the reason.
func (e *ConfigError) Error() string { return e.Err.Error() }

// Unwrap is the reason.
func (e *ConfigError) Unwrap() error { return e.Err }

// Agent is one node's.
type Agent struct {
	opt  Options
	root root
	rete string // of the trust pin; empty: it does not say

	mu     sync.Mutex // an install and OnChange exclude each other
	store  *artifact.Store
	change chan struct{} // has room for one: OnChange may have to be called
}

// Open reads the install root, and ends what a crash interrupted. The error is a
// ConfigError where the root is not fit to be kept.
func Open(opt Options) (*Agent, error) {
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.Refused == nil {
		opt.Refused = func(error) {}
	}
	if opt.Traced == nil {
		opt.Traced = func([]string, time.Time, error) {}
	}
	if opt.FS == nil {
		opt.FS = tree.Disk{}
	}
	if opt.Metrics == nil {
		opt.Metrics = NewMetrics(nil)
	}
	if opt.Retry <= 0 {
		opt.Retry = time.Second
	}
	a := &Agent{opt: opt, root: root{opt.FS, opt.Dir}, change: make(chan struct{}, 1)}
	pin, err := a.pin()
	if err != nil {
		return nil, &ConfigError{err}
	}
	a.rete = pin.Rete
	if a.store, err = artifact.OpenStore(opt.FS, a.root.path(tree.AcceptedFile), pin); err != nil {
		return nil, &ConfigError{err}
	}
	err = a.recover()
	opt.Metrics.accepted(opt.Dir, a.store.Version(), false)
	return a, err
}

// pin reads the trust pin, without which nothing can be believed.
func (a *Agent) pin() (artifact.Pin, error) {
	path := a.root.path(tree.PinFile)
	text, err := a.opt.FS.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return artifact.Pin{}, fmt.Errorf("there is no trust pin at %s: make the node's install root with retectl bundle %s, and carry it here", path, a.opt.Node)
	}
	if err != nil {
		return artifact.Pin{}, err
	}
	pin, err := artifact.ParsePin(text)
	if err != nil {
		return pin, fmt.Errorf("%s: %w", path, err)
	}
	if pin.Node != string(a.opt.Node) {
		return pin, fmt.Errorf("%s is the trust pin of node %q, not of %s", path, pin.Node, a.opt.Node)
	}
	return pin, nil
}

// recover brings the installed set to the one that was accepted. A set that was
// installed by hand before any was accepted is judged like one that comes.
func (a *Agent) recover() error {
	done, err := a.root.recover(a.store.SetFingerprint())
	if err == nil {
		err = a.root.sweep(tree.AcceptedFile, changeFile)
	}
	if err != nil {
		return fmt.Errorf("end the interrupted install: %w", err)
	}
	log := a.opt.Log.With("node", a.opt.Node)
	installed, err := a.root.documents()
	if err != nil {
		return err
	}
	switch {
	case done:
		log.Info("an interrupted install was ended", "version", a.store.Version())
	case a.store.SetFingerprint() == artifact.Fingerprint(installed):
	case a.store.SetFingerprint() != "":
		log.Warn("the installed set is not the one that was accepted; it is asked for again", "version", a.store.Version())
	case len(installed) > 0:
		return a.take(installed)
	}
	return nil
}

// Version is that of the accepted set; 0: none was.
func (a *Agent) Version() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.store.Version()
}

// Run follows the node until ctx ends. A plane that is away, or does not know
// the node, is asked again.
func (a *Agent) Run(ctx context.Context) error {
	a.opt.Follow.Log = a.opt.Log
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return a.onChange(ctx) })
	g.Go(func() error {
		again := backoff.Steady(finalPause)
		for ctx.Err() == nil {
			err := node.FollowArtifacts(ctx, a.opt.Server, a.opt.Node, a.opt.Follow, a.Offer)
			if err == nil {
				continue
			}
			pause := again.Next()
			a.opt.Log.Warn("the plane cannot be followed; trying again", "node", a.opt.Node, "pause_seconds", pause.Round(time.Millisecond).Seconds(), "error", err)
			_ = backoff.Sleep(ctx, pause)
		}
		return nil
	})
	a.wake()
	return g.Wait()
}

// finalPause is how long a plane is left alone that said no.
const finalPause = 10 * time.Second

// Offer judges what the plane holds for the node, and installs it if it is new.
// What is refused changes nothing, and is no error: asking again would bring the
// same. An empty set changes nothing either, since nobody signed it.
func (a *Agent) Offer(set node.Artifacts) error {
	if len(set.Items) == 0 {
		return nil
	}
	docs := make([]artifact.Document, 0, len(set.Items))
	for _, item := range set.Items {
		if text := []byte(item.Document); !a.elsewhere(text) {
			docs = append(docs, artifact.Document{Part: artifact.Part{Kind: item.Kind, Name: item.Name}, Text: text})
		}
	}
	if len(docs) == 0 {
		return nil
	}
	began := time.Now()
	err := a.take(docs)
	if set.Traceparent != "" {
		a.opt.Traced([]string{set.Traceparent}, began, err)
	}
	return err
}

// elsewhere says whether a document says that it is of another rete, which a node may
// be of, too, in another root. What nobody can read is judged, and refused.
func (a *Agent) elsewhere(text []byte) bool {
	e, err := artifact.Parse(text)
	if err != nil || a.rete == "" {
		return false
	}
	rete, below, _ := strings.Cut(strings.TrimPrefix(e.Signature.KeyID, "spiffe://"), "/")
	return below != "" && rete != a.rete
}

func (a *Agent) take(docs []artifact.Document) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	next, err := a.store.Accept(tree.Format, docs)
	if err != nil {
		a.opt.Log.Warn("a set was refused; the accepted one stays", "node", a.opt.Node, "version", a.store.Version(), "error", err)
		a.opt.Metrics.refused()
		a.opt.Refused(err)
		return nil
	}
	installed, err := a.root.documents()
	if err != nil {
		return err
	}
	if artifact.Fingerprint(installed) == artifact.Fingerprint(docs) {
		if next == a.store {
			return nil
		}
		err = next.Keep(a.opt.FS, a.root.path(tree.AcceptedFile)) // installed by hand
	} else {
		err = a.root.install(docs, next)
	}
	if err != nil {
		return fmt.Errorf("install version %d: %w", next.Version(), err)
	}
	a.store = next
	a.opt.Metrics.accepted(a.opt.Dir, next.Version(), true)
	a.opt.Log.Info("a set is installed", "node", a.opt.Node, "version", next.Version())
	a.wake()
	return nil
}

func (r root) path(name string) string { return filepath.Join(r.dir, name) }
