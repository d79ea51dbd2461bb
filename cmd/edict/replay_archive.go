package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/archive"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/internal/streams"
)

// replayArchive folds an archive in place of a log.
func (a replayCommands) replayArchive(cmd *cobra.Command, f replayFlags) error {
	for _, other := range []string{"verify", "from", "log", "nats"} {
		if cmd.Flags().Changed(other) && (other != "nats" || saysNATS(cmd)) {
			return cli.Usage(cmd, "--from-archive reads no other log: leave out --%s", other)
		}
	}
	ctx := cmd.Context()
	ar, err := archive.Open(ctx, f.archive)
	if err != nil {
		return err
	}
	state, err := ar.State(ctx)
	if err != nil {
		return err
	}
	until := state.Last
	if cmd.Flags().Changed("until") {
		until = f.until
	}
	result, err := a.foldArchive(ctx, ar, f.data, until)
	if err != nil {
		return err
	}
	return a.printResult(a.stdout, result)
}

// foldArchive folds an archive up to a sequence, into a directory or into one that is
// thrown away.
func (a replayCommands) foldArchive(ctx context.Context, ar *archive.Archive, data string, until uint64) (snapshot.Result, error) {
	opt, err := ar.StoreOptions(ctx)
	if err != nil {
		return snapshot.Result{}, err
	}
	return a.fold(ctx, data, until, func(dir string) (*snapshot.Replayed, error) { return beginArchive(ctx, ar, dir, until, opt) })
}

// beginArchive makes a read model to be folded up to a sequence from an archive: from its
// first event, or from the origin that it has.
func beginArchive(ctx context.Context, ar *archive.Archive, dir string, until uint64, opt projector.Options) (*snapshot.Replayed, error) {
	o, ok, err := ar.Origin()
	if err != nil || !ok {
		return snapshot.Begin(ar, dir, opt)
	}
	if until < o.Seq {
		return nil, &streams.CompactedError{Seq: until, Origin: o.Seq, Archive: o.Archive}
	}
	object, err := ar.OriginObject()
	if err != nil {
		return nil, err
	}
	return snapshot.BeginCarried(ctx, o, object, ar, dir, opt)
}
