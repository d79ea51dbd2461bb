package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/datadir"
	"github.com/edictdev/edict/internal/integrity"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
)

func (a *app) logAcceptCommand() *cobra.Command {
	var f logFlags
	var opt acceptOptions
	cmd := &cobra.Command{
		Use:   "accept",
		Short: "Take a log that was damaged or put back for the truth",
		Long: `Accept a log that lost its tail, that has changed, or that was made anew, as it is
now: what it lost is given up for good. If there is a backup, restore it instead.
Stop every worker first.

It fills the log with events that mean nothing up to the highest sequence that
was witnessed or folded, so that no sequence is ever used for two events. A log
that is gone is made anew, above that. Future event ids are above all earlier ones,
so that each node pulls once. All this is noted in the witness. With --log the read
model beside the log is moved away; move those of other workers by hand.

A log with a hole, or one that was compacted and lacks its origin, cannot be accepted,
because no fold can pass it.

With --restored a log that is whole is accepted, too: it was put back from a
backup, so nodes have received what it does not know, under ids that it would give
again. A plane with an embedded server notices by itself when the files of its
log were copied or put back; declare it after a snapshot of the disk was put back,
or a stream of an external server. Workers that still run end then, to be
started again.

Without --yes it says what it found, and changes nothing. Exit code 1: the log
is damaged, and it was not accepted.`,
		Example: `  edict log accept --log ./data
  edict log accept --log ./data --yes
  edict log accept --nats nats://10.0.0.1:4222 --restored --yes`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.accept(cmd, f, opt)
		},
	}
	a.damagedLogFlags(cmd, &f)
	cmd.Flags().BoolVar(&opt.yes, "yes", false, "do it")
	cmd.Flags().BoolVar(&opt.restored, "restored", false, "the log was put back from a backup: event ids begin anew, and every node pulls once")
	return cmd
}

// acceptOptions are the flags of `log accept` beside where the log is.
type acceptOptions struct {
	yes      bool
	restored bool // the log was put back from a backup
}

func (a *app) accept(cmd *cobra.Command, f logFlags, opt acceptOptions) error {
	ctx := cmd.Context()
	var store projector.Identity
	storeDir := datadir.Dir(f.log).Store()
	if f.log != "" {
		// Before the server has the log: whoever runs on the data is named.
		var err error
		if store, _, err = projector.Inspect(storeDir); err != nil {
			return err
		}
	}
	src, err := a.openServer(cmd, f)
	if err != nil {
		return err
	}
	defer src.close()
	conn := src.conn
	if err := conn.KeepReplicas(ctx, streams.ChainStream); err != nil {
		return err
	}
	r, err := a.verifyLog(ctx, conn)
	if err != nil {
		return err
	}
	r.CompareReadModel(store, storeDir)
	if err := proveOrigin(ctx, conn, r); err != nil {
		return err
	}
	lossy := r.Damage != nil
	if !lossy && !opt.restored || lossy && neverAccepted[r.Damage.Kind] != "" || !opt.yes {
		return a.notAccepted(r, opt)
	}
	if err := r.Accept(ctx, conn, store, opt.restored); err != nil {
		return err
	}
	if lossy && store.Seq > 0 {
		lost := fmt.Sprintf("%s.lost-%d", storeDir, store.Seq)
		if err := os.Rename(storeDir, lost); err != nil {
			return err
		}
		fmt.Fprintf(a.stderr, "the read model is at %s; the next start folds a new one\n", lost)
	}
	return a.printReport(r)
}

// notAccepted says what was found, and that nothing was changed.
func (a *app) notAccepted(r *integrity.Report, opt acceptOptions) error {
	if err := a.printReport(r); err != nil {
		return fmt.Errorf("%w%s", err, acceptHint(r.Damage.Kind))
	}
	if opt.restored {
		return cli.Failed(cli.Differs, "the log is whole; that it was put back is not noted yet: say --yes to do so")
	}
	fmt.Fprintln(a.stderr, "the log is whole: there is nothing to accept; if it was put back from a backup, say --restored")
	return nil
}

// neverAccepted are the kinds of damage that no fold can pass, and what to do then.
var neverAccepted = map[string]string{
	streams.DamageHole:   "a log with a hole cannot be accepted: restore it",
	streams.DamageOrigin: "a log without its origin cannot be accepted: restore KV_EDICT_META and OBJ_EDICT_SNAPSHOTS, which have it",
}

func acceptHint(kind string) string {
	if hint := neverAccepted[kind]; hint != "" {
		return "; " + hint
	}
	return "; it was not accepted: say --yes to do so"
}
