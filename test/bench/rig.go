package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// rig is a log in this process, on an embedded server.
type rig struct {
	dir    string
	server *streams.Server
	conn   *streams.Conn
	log    *streams.Log
}

// openRig opens a server and a log on dir. Close it.
func openRig(ctx context.Context, dir string) (r *rig, err error) {
	r = &rig{dir: dir}
	r.server, err = streams.StartServer(streams.ServerOptions{Dir: filepath.Join(dir, "nats"), Listen: "127.0.0.1:0", Relaxed: true})
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
func (r *rig) options() projector.Options {
	return projector.Options{
		Partitions: r.log.Partitions(), Created: r.log.Created(), First: r.log.First(),
	}
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

// Close closes what is open.
func (r *rig) Close() error {
	if r.conn != nil {
		r.conn.Close()
	}
	r.server.Close()
	return nil
}
