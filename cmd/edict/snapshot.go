package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/datadir"
	"github.com/edictdev/edict/internal/keyring"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/internal/streams"
)

// completeSnapshots reads --snapshot-every, which is a time or a number of events.
func (f *serveFlags) completeSnapshots(cmd *cobra.Command) (err error) {
	opt := &f.opt.Snapshots
	if opt.Keep < 1 {
		return cli.Usage(cmd, "--snapshot-keep %d: want 1 or more", opt.Keep)
	}
	if f.every == "" {
		return nil
	}
	if opt.Events, err = strconv.ParseUint(f.every, 10, 64); err == nil && opt.Events > 0 {
		return nil
	}
	if opt.Every, err = time.ParseDuration(f.every); err != nil || opt.Every < time.Second {
		return cli.Usage(cmd, "--snapshot-every %q: want a time of a second or more, such as 10m, or a number of events, such as 100000", f.every)
	}
	return nil
}

// snapshotCommands make, list and restore checkpoints.
type snapshotCommands struct{ *app }

func (a snapshotCommands) snapshotCommand() *cobra.Command {
	return group("snapshot", "Make, list and restore checkpoints of the read model",
		a.snapshotCreateCommand(), a.snapshotListCommand(), a.snapshotRestoreCommand())
}

func (a snapshotCommands) snapshotCreateCommand() *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use: "create", Short: "Make a checkpoint of a worker's read model", Args: cli.Args(0, 0),
		Long: `Make a checkpoint of the read model of the worker at --server, compressed, in the
plane's object store. A worker without a read model starts from the newest one
by itself and folds what came after.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client(cmd)
			if err != nil {
				return err
			}
			if dry {
				status, err := c.Status(cmd.Context(), false)
				if err != nil {
					return err
				}
				return a.tellDry("snapshot", fmt.Sprintf("made at sequence %d or later", status.Applied))
			}
			s, err := c.Snapshots.Create(cmd.Context())
			if err != nil {
				return err
			}
			return a.print(s, func(w io.Writer) { snapshotListing.write(w, []resource.Snapshot{s}, false) })
		},
	}
	a.clientFlags(cmd)
	a.outputFlag(cmd)
	dryRunFlag(cmd, &dry)
	return cmd
}

func (a snapshotCommands) snapshotListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List the checkpoints, newest first", Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client(cmd)
			if err != nil {
				return err
			}
			all, err := c.Snapshots.List(cmd.Context())
			if err != nil {
				return err
			}
			return printList(&a.console, snapshotListing, all)
		},
	}
	a.clientFlags(cmd)
	a.listFlags(cmd, snapshotListing.headers)
	return cmd
}

var snapshotListing = listing[resource.Snapshot]{
	kind: "snapshot", name: func(s resource.Snapshot) string { return s.Name },
	columns: []column[resource.Snapshot]{
		{"seq", func(s resource.Snapshot) string { return fmt.Sprint(s.Seq) }, false},
		{"name", func(s resource.Snapshot) string { return s.Name }, false},
		{"rows", func(s resource.Snapshot) string { return fmt.Sprint(s.Rows) }, false},
		{"size", func(s resource.Snapshot) string { return sizeText(uint64(s.Bytes)) }, false},
		{"created", func(s resource.Snapshot) string { return stamp(s.Created) }, false},
		{"worker", func(s resource.Snapshot) string { return s.Worker }, false},
	},
}

func (a snapshotCommands) snapshotRestoreCommand() *cobra.Command {
	var f logFlags
	var data string
	var yesDelete, dry bool
	cmd := &cobra.Command{
		Use: "restore [CHECKPOINT]", Short: "Restore a stopped worker's read model from a checkpoint", Args: cli.Args(0, 1),
		Long: `Restore the read model of a stopped worker from a checkpoint: the newest one, or
the one of that sequence or name. What it holds is checked against the log. The
worker folds the rest when it starts.

The checkpoint is read from the NATS server in the worker's own --data, if there
is one, else from that of the plane at --server, or from --nats. A read model
that is there is kept beside the restored one, unless --yes-delete is given.`,
		Example: `  edict snapshot restore --data ./data
  edict snapshot restore 4711 --data ./w2 --nats nats://10.0.0.1:4222`,
		RunE: func(cmd *cobra.Command, args []string) error {
			which := newest
			if len(args) > 0 {
				which = args[0]
			}
			if err := f.override(cmd); err != nil {
				return err
			}
			if f.nats == "" && f.log == "" {
				if _, err := os.Stat(datadir.Dir(data).NATS()); err == nil {
					f.log = data
				}
			}
			return a.snapshotRestore(cmd, f, data, which, yesDelete, dry)
		},
	}
	a.clientFlags(cmd)
	a.logSourceFlags(cmd, &f)
	cmd.Flags().StringVar(&data, "data", "data", "data directory of the stopped worker")
	cmd.Flags().BoolVar(&yesDelete, "yes-delete", false, "delete the read model that is there, once the checkpoint is restored")
	dryRunFlag(cmd, &dry)
	return cmd
}

func (a snapshotCommands) snapshotRestore(cmd *cobra.Command, f logFlags, data, which string, yesDelete, dry bool) error {
	c, err := a.client(cmd)
	if err != nil {
		return err
	}
	src, err := a.openLog(cmd.Context(), f, c)
	if err != nil {
		return err
	}
	defer src.close()
	checkpoints, m, err := a.checkpoint(cmd.Context(), src, which)
	if err != nil {
		return err
	}
	if dry {
		return a.tellDry("snapshot/"+m.Name, fmt.Sprintf("restored into %s, at sequence %d", data, m.Seq))
	}
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	old, err := datadir.Dir(data).Restore(cmd.Context(), checkpoints, m, src.log, src.storeOptions(math.MaxUint64))
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "restored the read model of %s from %s, at sequence %d\n", data, m.Name, m.Seq)
	switch {
	case old != "" && yesDelete:
		return os.RemoveAll(old)
	case old != "":
		fmt.Fprintf(a.stderr, "the old one is kept in %s, and may be deleted\n", old)
	}
	return nil
}

// newest is the checkpoint of who names none.
const newest = "newest"

// checkpoint finds a checkpoint by sequence or name, or the newest.
func (a *app) checkpoint(ctx context.Context, src *logSource, which string) (*snapshot.Checkpoints, snapshot.Manifest, error) {
	c, all, err := checkpoints(ctx, src)
	if err != nil {
		return nil, snapshot.Manifest{}, err
	}
	for _, m := range all {
		if which == newest || which == m.Name || which == strconv.FormatUint(m.Seq, 10) {
			return c, m, nil
		}
	}
	if which == newest {
		return nil, snapshot.Manifest{}, cli.Failed(cli.NotFound, "there is no checkpoint of this log: make one with edict snapshot create")
	}
	return nil, snapshot.Manifest{}, cli.Failed(cli.NotFound, "there is no checkpoint %s of this log: edict snapshot list shows those there are", which)
}

// checkpoints are those of the log, newest first; none when there is no place
// for them yet.
func checkpoints(ctx context.Context, src *logSource) (*snapshot.Checkpoints, []snapshot.Manifest, error) {
	c, err := snapshot.OpenCheckpoints(ctx, src.conn, src.log.Created(), false)
	if errors.Is(err, streams.ErrNotFound) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	all, err := c.List(ctx)
	return c, all, err
}

// beginAt makes a read model to be folded up to seq: from the nearest
// checkpoint not after it, when there is a sound one, else from the first
// event.
func (a *app) beginAt(ctx context.Context, src *logSource, dir string, seq uint64) (*snapshot.Replayed, error) {
	c, all, err := checkpoints(ctx, src)
	if err != nil {
		fmt.Fprintf(a.stderr, "warning: checkpoints cannot be read, folding from the first event: %v\n", err)
	}
	for _, m := range all {
		if m.Seq > seq || m.Seq < src.log.Begins() {
			continue
		}
		r, err := snapshot.BeginFrom(ctx, c, m, src.log, dir, src.storeOptions(seq))
		if err == nil || ctx.Err() != nil {
			return r, err
		}
		fmt.Fprintf(a.stderr, "warning: %v\n", err)
	}
	return beginWhole(ctx, src, dir, seq)
}

// beginWhole makes a read model to be folded up to seq from the first event that the log
// has, or from its origin.
func beginWhole(ctx context.Context, src *logSource, dir string, seq uint64) (*snapshot.Replayed, error) {
	trust := snapshot.Trust(snapshot.SelfSigned) // no plane was started on an imported log yet
	if _, compacted := src.log.Origin(); compacted {
		recorded, err := keyring.Trusted(ctx, src.conn)
		if err == nil {
			trust = recorded
		} else if !errors.Is(err, streams.ErrNotFound) {
			return nil, err
		}
	}
	return beginTrusting(ctx, src, dir, seq, trust)
}

// beginTrusting is beginWhole for who knows whose key may have signed the origin.
func beginTrusting(ctx context.Context, src *logSource, dir string, seq uint64, trust snapshot.Trust) (*snapshot.Replayed, error) {
	o, compacted := src.log.Origin()
	if !compacted {
		return snapshot.Begin(src.log, dir, src.storeOptions(seq))
	}
	if seq < o.Seq {
		return nil, &streams.CompactedError{Seq: seq, Origin: o.Seq, Archive: o.Archive}
	}
	c, err := snapshot.OpenOriginStore(ctx, src.conn, src.log.Created(), o)
	if err != nil {
		return nil, err
	}
	return snapshot.BeginFromOrigin(ctx, c, o, trust, src.log, dir, src.storeOptions(seq))
}
