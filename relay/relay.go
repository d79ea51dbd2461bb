// Package relay carries the read model to nodes. It turns the edges that the
// fold leaves into signed messages of the node stream, exactly once and in
// order, under a fence that lets only one process announce a partition; and it
// serves every node its messages, live and resumed, over SSE and over NATS.
//
// The protocol is that of design section 6, checked there by a model: the
// tests of this package hold the code to the model's counterexamples. What a
// row is and when it changes is the projector's business; what a node's state
// is when it pulls is the snapshot's.
package relay

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/streams"
	"golang.org/x/sync/errgroup"
)

// Options has a useful zero value: all of 64 partitions, quiet.
type Options struct {
	Partitions int    // of the plane, as the log was created with; 0 is 64
	Announce   []int  // partitions this process may announce; nil: all, empty: none
	Share      Share  // which of these it is to announce now; nil: all of them, always
	Owner      string // of this process start, as NewOwner makes it; "": a new one
	Lanes      int    // batches in flight, at most 8; 0 is 4
	Ring       int    // bytes of recent messages kept to answer resumes from; 0 is 64 MiB, below 0 none
	Replier    Replier
	Tables     TableWatch // nil: changes of tables alone are not told
	Metrics    Metrics
	// Dialect is the form of envelopes that a node's agent reads; nil: all read the
	// current one.
	Dialect func(node policy.NodeID) policy.Dialect
	Traced  func(Traced) // told of batches that announce what a traced request caused; nil: nobody is
	Log     *slog.Logger

	KeepAlive    time.Duration // between comments on a silent stream; 0 is 25 s
	WriteTimeout time.Duration // after which a client that reads nothing is let go; 0 is 30 s
	Contested    time.Duration // before a partition lost to another is tried again; 0 is 10 s, or 0.2 s with a Share
	Patience     time.Duration // a gate shut for so long makes the process not ready; 0 is 10 s
}

func (o Options) withDefaults() Options {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	if o.Partitions == 0 {
		o.Partitions = 64
	}
	if o.Announce == nil {
		for i := range o.Partitions {
			o.Announce = append(o.Announce, i)
		}
	}
	if o.Lanes == 0 {
		o.Lanes = 4
	}
	o.Lanes = min(o.Lanes, 8)
	if o.Ring == 0 {
		o.Ring = 64 << 20
	}
	if o.Dialect == nil {
		o.Dialect = func(policy.NodeID) policy.Dialect { return policy.DialectCurrent }
	}
	if o.Metrics == nil {
		o.Metrics = quiet{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	def(&o.KeepAlive, 25*time.Second)
	def(&o.WriteTimeout, 30*time.Second)
	if o.Share != nil {
		def(&o.Contested, 200*time.Millisecond) // who is right will be known soon
	}
	def(&o.Contested, 10*time.Second)
	def(&o.Patience, 10*time.Second)
	return o
}

// Relay announces and serves. Its methods are safe for many goroutines.
type Relay struct {
	store  Store
	openAt Open
	keys   *artifact.Keyring
	logID  string
	owner  string
	opt    Options

	board *board
	tails tails
	hub   atomic.Pointer[hub] // of the stream that is open now
	last  atomic.Uint64       // last sequence known of any stream
}

// New makes a relay for the log created at that time; Run starts it.
func New(store Store, open Open, keys *artifact.Keyring, created time.Time, opt Options) *Relay {
	opt = opt.withDefaults()
	return &Relay{
		store: store, openAt: open, keys: keys, opt: opt,
		logID: strconv.FormatInt(created.UnixNano(), 10),
		owner: cmp.Or(opt.Owner, NewOwner()),
		board: newBoard(opt.Partitions),
	}
}

// NewOwner names a process start; two never agree.
func NewOwner() string {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic(err) // never fails
	}
	return hex.EncodeToString(b[:])
}

// Run announces and serves until ctx ends. A node stream that is found remade
// is opened again; live streams end then, and their clients resume on the new
// one.
func (r *Relay) Run(ctx context.Context) error {
	for first := true; ctx.Err() == nil; first = false {
		stream, err := r.openAt(ctx, r.last.Load())
		if err != nil && ctx.Err() == nil {
			if first {
				return fmt.Errorf("open the node stream: %w", err)
			}
			r.opt.Log.Warn("the node stream cannot be opened; trying again", "error", err)
			sleep(ctx, time.Second)
			continue
		}
		if err == nil {
			err = r.serve(ctx, stream)
		}
		var damaged *streams.DamagedError
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &damaged):
			r.opt.Log.Warn("the node stream was remade; opening it again", "detail", damaged.Detail)
		case err != nil:
			return err
		}
	}
	return nil
}

// serve runs every part on one node stream, until ctx ends or one of them
// cannot go on.
func (r *Relay) serve(ctx context.Context, stream Stream) error {
	marks := dayMarks{stream: stream, log: r.opt.Log}
	if _, err := marks.keep(ctx); err != nil {
		r.opt.Log.Warn("the day mark could not be written yet", "error", err)
	}
	r.board.reset()
	h := newHub(r, stream)
	r.hub.Store(h)
	defer func() {
		at, _ := h.position()
		r.last.Store(max(r.last.Load(), at))
		r.hub.Store(nil)
	}()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return h.Run(ctx) })
	g.Go(func() error { return marks.Run(ctx) })
	if len(r.opt.Announce) > 0 {
		g.Go(func() error { return newAnnouncer(r, stream).Run(ctx) })
		if r.opt.Tables != nil {
			t := tableTeller{
				stream: stream, store: r.store, board: r.board, watch: r.opt.Tables,
				owner: r.owner, logID: r.logID, partitions: r.opt.Partitions, log: r.opt.Log,
			}
			g.Go(func() error { return t.Run(ctx) })
		}
	}
	if r.opt.Replier != nil {
		g.Go(func() error { return r.serveReplay(ctx) })
	}
	return g.Wait()
}

// Position is the node stream's sequence up to which every message has been
// released here: the own read model holds what they tell. For Edict-Node-Seq
// it must be taken before the state it goes with is read. The error is a
// *NotReadyError.
func (r *Relay) Position() (uint64, error) {
	h := r.hub.Load()
	if h == nil {
		return 0, &NotReadyError{"the node stream is not open yet"}
	}
	return h.position()
}

// Ready says why nodes cannot be served now, a *NotReadyError; nil: they can.
func (r *Relay) Ready() error {
	_, err := r.Position()
	return err
}

// Partitions are all partitions of the plane, whoever announces them, as their
// fences say.
func (r *Relay) Partitions() ([]PartitionStatus, error) {
	list := r.board.status()
	after := make([]uint64, len(list))
	for i := range list {
		after[i] = list[i].After.Seq
	}
	above := r.store.EdgesAbove(after) // each question may wait for a batch that is folded
	box := r.store.Outbox()
	defer box.Close()
	for i := range list {
		n, err := r.tails.left(box, list[i])
		if err != nil {
			return nil, err
		}
		list[i].Edges = n + above[i]
	}
	return list, nil
}

// Owner is the id of this process start in fences.
func (r *Relay) Owner() string { return r.owner }
