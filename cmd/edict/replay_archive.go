package main

import (
	"context"

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
func (a replayCommands) foldArchive(ctx context.Context, ar *archive.Archive, data string, until uint64) (snapshot.Result, error) {
	opt, err := ar.StoreOptions(ctx)
	if err != nil {
		return snapshot.Result{}, err
	}
	return a.fold(ctx, ar, opt, data, until)
}
