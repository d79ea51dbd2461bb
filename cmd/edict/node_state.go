package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/policy"
)

func (a nodeCommands) nodeStateCommand() *cobra.Command {
	var f logFlags
	var at string
	cmd := &cobra.Command{
		Use: "state ID", Short: "Show what a node must apply, now or at a moment of the past", Args: cli.Args(1, 1),
		Long: `Show what a node must apply now, as its agent pulls it. With -o json the answer
is printed byte for byte.

With --at it is what the node had to apply at a moment: after the event of that
log sequence, or at a time (RFC 3339), which is after the last event that the
log had stored by then. The plane folds its log again up to there, from the
nearest place that it kept. With --nats or --log the plane is not troubled: the
log is read from that NATS server or from the data of a stopped plane, and folded
here, from the nearest checkpoint, into a store that is thrown away.`,
		Example: `  edict node state web-1
  edict node state web-1 --at 4711
  edict node state web-1 --at 2026-11-17T12:00:00Z --log ./data`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client(cmd)
			if err != nil {
				return err
			}
			if err := checkMoment(cmd, "at", &at); err != nil {
				return err
			}
			switch {
			case at != "" && (f.log != "" || f.nats != ""):
				return a.nodeStateAt(cmd, c, f, args[0], at)
			case f.log != "":
				return cli.Usage(cmd, "--log reads the past of a stopped plane: say which moment with --at")
			}
			s, err := c.Nodes.State(cmd.Context(), args[0], client.StateQuery{At: at})
			if err != nil {
				return atMoment(err, "node "+args[0], at)
			}
			if at != "" {
				fmt.Fprintf(a.stderr, "as of sequence %d\n", s.LogSeq)
			}
			return a.writeState(s.Body)
		},
	}
	a.clientFlags(cmd)
	a.outputFlag(cmd)
	a.logSourceFlags(cmd, &f)
	atFlag(cmd, &at)
	return cmd
}

// atFlag gives a command the flag that names a moment of the past.
func atFlag(cmd *cobra.Command, at *string) {
	cmd.Flags().StringVar(at, "at", "", "log sequence, time such as 2026-11-17T12:00:00Z, or how long ago, such as 5m (default now)")
}

// checkMoment refuses what a flag cannot name a moment with, and makes a time of how
// long ago it was.
func checkMoment(cmd *cobra.Command, flag string, text *string) error {
	_, err := parseMoment(*text)
	if err == nil || *text == "" {
		return nil
	}
	ago, err := time.ParseDuration(*text)
	if err != nil || ago < 0 {
		return cli.Usage(cmd, "--%s %q: want a log sequence, a time such as 2026-11-17T12:00:00Z, or how long ago, such as 5m", flag, *text)
	}
	*text = time.Now().Add(-ago).UTC().Format(time.RFC3339Nano)
	return nil
}

// atMoment is an error about a node or a policy at a moment, now when that is "". The
// plane's refusal of a moment that is yet to come is one of something that is not there.
func atMoment(err error, what, at string) error {
	var p *client.Problem
	switch {
	case !errors.As(err, &p):
	case p.Status == http.StatusBadRequest && p.Code == api.CodeNotYet:
		return cli.Failed(cli.NotFound, "%v", err)
	case at != "" && (p.Code == api.CodeNodeNotFound || p.Code == api.CodePolicyNotFound):
		return &absentThenError{p, what, at}
	}
	return err
}

// absentThenError means that something was not there at a moment of the past.
type absentThenError struct {
	*client.Problem
	what, at string
}

func (e *absentThenError) Error() string { return fmt.Sprintf("there was no %s at %s", e.what, e.at) }

func (e *absentThenError) Unwrap() error { return e.Problem }

// moment is what --at names.
type moment struct {
	seq    uint64
	time   time.Time
	byTime bool
}

func parseMoment(s string) (m moment, err error) {
	if m.seq, err = strconv.ParseUint(s, 10, 64); err == nil {
		return m, nil
	}
	m.time, err = time.Parse(time.RFC3339Nano, s)
	m.byTime = true
	return m, err
}

func (a nodeCommands) nodeStateAt(cmd *cobra.Command, c *client.Client, f logFlags, name, at string) error {
	id, err := policy.ParseNodeID(name)
	if err != nil {
		return cli.Usage(cmd, "%q is no node id: want a DNS label", name)
	}
	when, err := parseMoment(at)
	if err != nil {
		return err
	}
	if now := time.Now(); when.time.After(now) { // as the plane has it
		return cli.Failed(cli.NotFound, "%s is yet to come: it is %s now", at, stamp(now))
	}
	if err := f.override(cmd); err != nil {
		return err
	}
	ctx := cmd.Context()
	src, err := a.openLog(ctx, f, c)
	if err != nil {
		return err
	}
	defer src.close()
	if when.byTime {
		if when.seq, err = snapshot.MomentOf(ctx, src.log, when.time); err != nil {
			return err
		}
	}
	s, ok, err := a.stateAt(ctx, src, id, when.seq)
	var past *snapshot.PastError
	switch {
	case errors.As(err, &past):
		return cli.Failed(cli.NotFound, "%v", err)
	case err != nil:
		return err
	case !ok:
		return cli.Failed(cli.NotFound, "there was no node %s at sequence %d", id, when.seq)
	}
	fmt.Fprintf(a.stderr, "as of sequence %d\n", when.seq)
	return a.writeState(s.Body)
}

// stateAt folds the log up to seq into a store that is thrown away.
func (a nodeCommands) stateAt(ctx context.Context, src *logSource, id policy.NodeID, seq uint64) (s snapshot.State, ok bool, err error) {
	dir, cleanup, err := scratch("")
	if err != nil {
		return s, false, err
	}
	defer cleanup()
	r, err := a.beginAt(ctx, src, dir, seq)
	if err != nil {
		return s, false, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := a.foldTo(ctx, r, seq); err != nil {
		return s, false, err
	}
	return r.StateOf(ctx, id)
}
