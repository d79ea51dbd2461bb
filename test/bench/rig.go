package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/projector"
	"github.com/edictdev/edict/relay"
	"github.com/edictdev/edict/streams"
)

// rig is the plane's inner parts in this process, without its API: the
// embedded server, the log, the fold and the relay.
type rig struct {
	relaxed bool
	dir     string
	server  *streams.Server
	conn    *streams.Conn
	log     *streams.Log
	store   *projector.Projector
	relay   *relay.Relay
	signer  *artifact.Signer
	told    told
	stop    context.CancelFunc
	ended   chan error // of the two parts that run; nil while they do not
}

// openRig opens a server and a log on dir. Close it.
func openRig(ctx context.Context, dir string, relaxed bool) (r *rig, err error) {
	r = &rig{relaxed: relaxed, dir: dir}
	if r.signer, err = artifact.GenerateSigner(); err != nil {
		return nil, err
	}
	r.server, err = streams.StartServer(streams.ServerOptions{Dir: filepath.Join(dir, "nats"), Relaxed: relaxed})
	if err != nil {
		return nil, err
	}
	if r.conn, err = streams.Connect(ctx, streams.ConnectOptions{Server: r.server, Name: "bench"}); err == nil {
		r.log, err = streams.OpenLog(ctx, r.conn, streams.LogOptions{})
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// options are of a store that folds the rig's log.
func (r *rig) options(relaxed bool) projector.Options {
	return projector.Options{
		Partitions: r.log.Partitions(), Created: r.log.Created(), First: r.log.First(), Relaxed: relaxed,
	}
}

// start opens a store and runs the fold and the relay.
func (r *rig) start(ctx context.Context) (err error) {
	if r.store, err = projector.Open(filepath.Join(r.dir, "store"), r.options(r.relaxed)); err != nil {
		return err
	}
	open := relay.NodeStream(r.conn, streams.NodesOptions{LogID: r.log.ID()})
	r.told.wake = make(chan struct{}, 1)
	r.relay = relay.New(relay.FromProjector(r.store), open, artifact.NewKeyring(r.signer), r.log.Created(), relay.Options{
		Partitions: r.log.Partitions(), Metrics: &r.told,
	})
	ctx, r.stop = context.WithCancel(ctx)
	r.ended = make(chan error, 2)
	go func() { r.ended <- r.store.Run(ctx, r.log) }()
	go func() { r.ended <- r.relay.Run(ctx) }()
	return nil
}

// publish appends events in order and returns the last one's sequence.
func (r *rig) publish(ctx context.Context, events []policy.Event) (uint64, error) {
	as := make([]streams.Append, len(events))
	for i, e := range events {
		as[i] = streams.Append{Event: e, Bulk: true}
	}
	seqs, err := r.log.PublishAll(ctx, as)
	if err != nil || len(seqs) == 0 {
		return 0, err
	}
	return seqs[len(seqs)-1], nil
}

// follows waits until the fold has reached seq and every partition is followed
// with nothing left to tell.
func (r *rig) follows(ctx context.Context, seq uint64) error {
	const pause = 20 * time.Millisecond
	if err := r.store.Wait(ctx, seq); err != nil {
		return err
	}
	for {
		ps, err := r.relay.Partitions()
		if err != nil {
			return err
		}
		if followed(ps) {
			return nil
		}
		select {
		case <-time.After(pause):
		case err := <-r.ended:
			return fmt.Errorf("a part of the plane ended: %w", err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func followed(ps []relay.PartitionStatus) bool {
	for _, p := range ps {
		if p.Owner == "" || p.Mode != relay.Follow || p.Edges > 0 {
			return false
		}
	}
	return true
}

// Close stops what runs and closes what is open.
func (r *rig) Close() (err error) {
	if r.ended != nil {
		r.stop()
		err = errors.Join(<-r.ended, <-r.ended)
	}
	if r.store != nil {
		err = errors.Join(err, r.store.Close())
	}
	if r.conn != nil {
		r.conn.Close()
	}
	r.server.Close()
	return err
}

// told counts announcements as the relay has them stored.
type told struct {
	relay.Metrics // the methods that are not counted here are not called without SSE clients
	n             atomic.Int64
	wake          chan struct{}
}

// Announced hears of a batch that is stored.
func (t *told) Announced(announcements, _ int) {
	t.n.Add(int64(announcements))
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// FenceConflict is not counted.
func (t *told) FenceConflict() {}

// await returns when n have been announced in all.
func (t *told) await(ctx context.Context, n int64, ended <-chan error) error {
	for t.n.Load() < n {
		select {
		case <-t.wake:
		case err := <-ended:
			return fmt.Errorf("a part of the plane ended after %d of %d announcements: %w", t.n.Load(), n, err)
		case <-ctx.Done():
			return fmt.Errorf("%d of %d announced: %w", t.n.Load(), n, ctx.Err())
		}
	}
	return nil
}
