package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/cmd/edict/internal/progress"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/snapshot"
)

// replayFlags are the flags of `replay`.
type replayFlags struct {
	logFlags
	data, from string
	archive    string
	until      uint64
	verify     bool
}

// replayCommands fold a log again, and compare.
type replayCommands struct{ *app }

func (a replayCommands) replayCommand() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Fold the log again into an empty directory, print the digest",
		Long: `Fold the log from its first event into an empty read model, and print the
sequence it came to, its rows and its digest. A worker at the same sequence
shows the same digest ("edict status --digest"). With --until the fold ends at
that sequence: the read model is as it was then. With --from it begins with a
checkpoint ("edict snapshot list"), and what came before it is not checked.

The log is read from the NATS server of the plane at --server, from another one
(--nats, EDICT_NATS), or from the data directory of a stopped plane (--log).
Without --data the new read model is thrown away.

With --from-archive the log is read from an archive (edict log export); no plane is
asked.

With --verify the read model of the plane at --server, or of the stopped plane,
is compared with the log at the same sequence. Exit code 1 means that they differ;
the first fact or row that differs is printed.

On a terminal the result is a sentence; elsewhere it is one line of JSON.`,
		Example: `  edict replay --verify
  edict replay --data ./rebuilt --log ./data
  edict replay --data ./tuesday --until 4711
  edict replay --from newest`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.archive != "" {
				return a.replayArchive(cmd, f)
			}
			return a.replay(cmd, f)
		},
	}
	a.clientFlags(cmd)
	a.outputFlag(cmd)
	a.logSourceFlags(cmd, &f.logFlags)
	cmd.Flags().StringVar(&f.data, "data", "", "new directory for the read model (default a temporary one)")
	cmd.Flags().StringVar(&f.from, "from", "", "checkpoint to begin with: newest, a sequence or a name (default the first event)")
	cmd.Flags().StringVar(&f.archive, "from-archive", "", "`directory` of an archive that has the log, or s3://bucket/prefix")
	cmd.Flags().Uint64Var(&f.until, "until", 0, "last sequence to fold (default the log's head)")
	cmd.Flags().BoolVar(&f.verify, "verify", false, "compare with the plane's own read model, and name the first difference")
	return cmd
}

func (a replayCommands) replay(cmd *cobra.Command, f replayFlags) error {
	if err := f.override(cmd); err != nil {
		return err
	}
	if f.verify && cmd.Flags().Changed("until") {
		return cli.Usage(cmd, "--verify is about the plane as it stands now; --until is about another moment")
	}
	c, err := a.client(cmd)
	if err != nil {
		return err
	}
	src, err := a.openLog(cmd.Context(), f.logFlags, c)
	if err != nil {
		return err
	}
	defer src.close()
	return a.replayFrom(cmd, f, c, src)
}

// replayFrom does what f asks for with the log at hand.
func (a replayCommands) replayFrom(cmd *cobra.Command, f replayFlags, c *client.Client, src *logSource) (err error) {
	ctx := cmd.Context()
	var live liveModel
	if f.verify {
		if live, err = openLive(ctx, f, c, src); err != nil {
			return err
		}
		defer live.close()
	}
	until, err := f.target(cmd, live, src)
	if err != nil {
		return err
	}
	dir, cleanup, err := scratch(f.data)
	if err != nil {
		return err
	}
	defer cleanup()
	r, err := a.begin(ctx, src, dir, f.from, until)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := a.foldTo(ctx, r, until); err != nil {
		return err
	}
	result, err := r.Result(ctx)
	if err != nil {
		return err
	}
	err = a.printResult(a.stdout, result)
	if err != nil || !f.verify {
		return err
	}
	if err := a.verify(ctx, live, r, result); err != nil || !a.sitsThere(a.stdout) {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "That is what %s has at event %d: they agree.\n", live, result.Seq)
	return err
}

// sitsThere reports whether a person reads what is printed to w.
func (a replayCommands) sitsThere(w io.Writer) bool { return isTerminal(w) && a.forPeople() }

func (a replayCommands) printResult(w io.Writer, result snapshot.Result) error {
	if a.sitsThere(w) {
		_, err := fmt.Fprintln(w, replayedText(result))
		return err
	}
	return a.print(result, func(w io.Writer) {
		// The contract's form: one line, wherever no person reads it.
		fmt.Fprintf(w, `{"seq":%d,"rows":%d,"digest":"%s"}`+"\n", result.Seq, result.Rows, result.Digest)
	})
}

// replayedText is what a fold came to, for people.
func replayedText(r snapshot.Result) string {
	return fmt.Sprintf("The log up to event %d folds to %s, with this digest:\n  %s", r.Seq, cli.Counted(r.Rows, "row"), r.Digest)
}

// begin makes the read model to fold into: of an empty log, or of a checkpoint.
func (a *app) begin(ctx context.Context, src *logSource, dir, from string, until uint64) (*snapshot.Replayed, error) {
	if from == "" {
		return beginWhole(ctx, src, dir, until)
	}
	c, m, err := a.checkpoint(ctx, src, from)
	if err != nil {
		return nil, err
	}
	return snapshot.BeginFrom(ctx, c, m, src.log, dir, src.storeOptions(until))
}

// target is the sequence to fold to: that of the flag, or where the live read model
// stands that is to be compared, or the log's head.
func (f replayFlags) target(cmd *cobra.Command, live liveModel, src *logSource) (uint64, error) {
	switch {
	case live != nil:
		return live.seq(), nil
	case cmd.Flags().Changed("until"):
		return f.until, nil
	}
	state, err := src.log.State(cmd.Context())
	return state.Last, err
}

// scratchName begins the names of directories to fold into that are thrown away.
const scratchName = "edict-replay-"

// scratch is the directory to fold into: the one given, or one to be thrown
// away.
func scratch(given string) (dir string, cleanup func(), err error) {
	if given != "" {
		return given, func() {}, nil
	}
	dir, err = os.MkdirTemp("", scratchName)
	return dir, func() { os.RemoveAll(dir) }, err
}

// fold folds a log up to a sequence, from where begin has the read model begin, into a
// directory, or into one that is thrown away: "".
func (a *app) fold(ctx context.Context, data string, until uint64, begin func(dir string) (*snapshot.Replayed, error)) (result snapshot.Result, err error) {
	dir, cleanup, err := scratch(data)
	if err != nil {
		return result, err
	}
	defer cleanup()
	r, err := begin(dir)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := a.foldTo(ctx, r, until); err != nil {
		return result, err
	}
	return r.Result(ctx)
}

// foldTo folds and shows how far that is.
func (a *app) foldTo(ctx context.Context, r *snapshot.Replayed, until uint64) error {
	bar := progress.Start(a.stderr, "replaying", "events", 0)
	defer bar.Stop()
	return r.FoldTo(ctx, until, func(done, total uint64, _ float64) {
		bar.SetTotal(int64(total))
		bar.Set(int64(done))
	})
}
