package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/archive"
	"github.com/edictdev/edict/internal/snapshot"
)

// replayArchive folds an archive in place of a log.
func (a replayCommands) replayArchive(cmd *cobra.Command, f replayFlags) error {
	for _, other := range []string{"verify", "from", "log", "nats"} {
		if cmd.Flags().Changed(other) {
			return cli.Usage(cmd, "--from-archive reads no other log: leave out --%s", other)
		}
	}
	ctx := cmd.Context()
	ar, err := archive.Open(f.archive)
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
	return a.printResult(result)
}

// foldArchive folds an archive up to a sequence, into a directory or into one that is
// thrown away.
func (a replayCommands) foldArchive(ctx context.Context, ar *archive.Archive, data string, until uint64) (result snapshot.Result, err error) {
	opt, err := ar.StoreOptions(ctx)
	if err != nil {
		return result, err
	}
	dir, cleanup, err := scratch(data)
	if err != nil {
		return result, err
	}
	defer cleanup()
	r, err := snapshot.Begin(ar, dir, opt)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := a.foldTo(ctx, r, until); err != nil {
		return result, err
	}
	return r.Result(ctx)
}
