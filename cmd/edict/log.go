package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/cmd/edict/internal/progress"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/integrity"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/internal/streams"
)

func (a *app) logCommand() *cobra.Command {
	archives := archiveCommands{a}
	return group("log", "Verify the log, accept a loss, compact it, move it in archives",
		a.logVerifyCommand(), a.logAcceptCommand(), archives.logExportCommand(), archives.logCatCommand(), archives.logImportCommand(), archives.logCompactCommand())
}

func (a *app) logVerifyCommand() *cobra.Command {
	var f logFlags
	var path string
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Read the whole log and compare it with what was witnessed of it",
		Long: `Read the log from its first event to its last, compute the chain hash, and
compare it with every link of the witness, the stream EDICT_CHAIN. The first
fault is named: a hole, a lost tail, a changed event, another log in the place
of the one that was witnessed, or, where the log was compacted, an origin that is
not what it was. docs/recovery.md says what to do then.

The log is read from the NATS server of the plane at --server, from another one
(--nats, EDICT_NATS), or from the data directory of a stopped plane (--log).

With --archive an archive is read in its place (edict log export): its lines, its
segments and their chain hash. It is compared with what the witness of the log says,
if that is reached.

Exit code 1: the log, or the archive, is damaged.`,
		Example: `  edict log verify
  edict log verify --log ./data -o json
  edict log verify --archive ./archive`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if path != "" {
				return archiveCommands{a}.verifyArchive(cmd, f, path)
			}
			src, err := a.openServer(cmd, f)
			if err != nil {
				return err
			}
			defer src.close()
			r, err := a.verifyLog(cmd.Context(), src.conn)
			if err == nil {
				err = proveOrigin(cmd.Context(), src.conn, r)
			}
			if err != nil {
				return err
			}
			return a.printReport(r)
		},
	}
	a.damagedLogFlags(cmd, &f)
	cmd.Flags().StringVar(&path, "archive", "", "`archive` to be read in place of a log: a directory of segments, s3://bucket/prefix, or one segment")
	return cmd
}

// damagedLogFlags are for those who look at a log that may be damaged.
func (a *app) damagedLogFlags(cmd *cobra.Command, f *logFlags) {
	a.clientFlags(cmd)
	a.outputFlag(cmd)
	a.logSourceFlags(cmd, f)
}

// openServer connects to the server that has the log, and does not open the log,
// which may be damaged.
func (a *app) openServer(cmd *cobra.Command, f logFlags) (*logSource, error) {
	if err := f.override(cmd); err != nil {
		return nil, err
	}
	c, err := a.client(cmd)
	if err != nil {
		return nil, err
	}
	return a.openConn(cmd.Context(), f, c)
}

// verifyLog reads the log that conn has. A damaged one is no error.
func (a *app) verifyLog(ctx context.Context, conn *streams.Conn) (*integrity.Report, error) {
	return integrity.Verify(ctx, conn, func(what, unit string, total int64) (func(int64), func()) {
		bar := progress.Start(a.stderr, what, unit, total)
		return bar.Set, bar.Stop
	})
}

// proveOrigin proves what a log begins with that was compacted.
func proveOrigin(ctx context.Context, conn *streams.Conn, r *integrity.Report) error {
	return r.ProveOrigin(func(log *streams.Log) error { return snapshot.ProveOrigin(ctx, conn, log) })
}

// printReport prints the result. A damaged log ends the command with 1.
func (a *app) printReport(r *integrity.Report) error {
	err := a.print(r, func(w io.Writer) {
		fmt.Fprintf(w, "Log:        %s, %s\n", r.Log, span(r.First, r.Last))
		if r.Links == 0 {
			fmt.Fprintf(w, "Witness:    no link yet, nothing was compared: a plane adds one every %d events, a minute after a write, and when it stops\n", projector.LinkEvery)
		} else {
			fmt.Fprintf(w, "Witness:    %s, the last at %d\n", cli.Counted(r.Links, "link"), r.Witnessed)
		}
		if r.Unreadable > 0 {
			fmt.Fprintf(w, "Unreadable: %s\n", cli.Counted(r.Unreadable, "link"))
		}
		for _, l := range r.Accepted {
			fmt.Fprintf(w, "Accepted:   %s, log %s at %d\n", stamp(l.Time), l.Log, l.Seq)
		}
		for _, l := range r.Restored {
			fmt.Fprintf(w, "Restored:   %s, log %s at %d\n", stamp(l.Time), l.Log, l.Seq)
		}
		fmt.Fprintf(w, "Read up to: %d, chain hash %s\n", r.Verified, r.Hash)
		if r.Damage == nil && r.Links > 0 {
			fmt.Fprintf(w, "Agrees:     with the witness, up to event %d%s\n", r.Witnessed, notYet(r))
		}
		if d := r.Damage; d != nil {
			fmt.Fprintf(w, "Damage:     %s, %s\n", d.Kind, where(d))
		}
	})
	if err != nil || r.Damage == nil {
		return err
	}
	return cli.Failed(cli.Differs, "the log is damaged (%s): %s; docs/recovery.md says what to do", r.Damage.Kind, r.Damage.Detail)
}

// notYet says which events the witness has no link of so far.
func notYet(r *integrity.Report) string {
	if r.Last <= r.Witnessed {
		return ""
	}
	return "; it has no link yet of " + span(r.Witnessed+1, r.Last)
}

// span says which events there are.
func span(first, last uint64) string {
	if first > last {
		return "no events"
	}
	return fmt.Sprintf("events %d to %d", first, last)
}

// where says between which links the damage is.
func where(d *integrity.Damage) string {
	above := "the end"
	if d.LinkAbove != nil {
		above = fmt.Sprintf("the link at %d", *d.LinkAbove)
	}
	below := "the beginning"
	if d.LinkBelow > 0 {
		below = fmt.Sprintf("the link at %d", d.LinkBelow)
	}
	return fmt.Sprintf("events %d to %d, between %s and %s", d.From, d.To, below, above)
}
