package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
)

// workerCommands show the processes that a plane consists of.
type workerCommands struct{ *app }

func (a workerCommands) workerCommand() *cobra.Command {
	return group("worker", "Show the workers of a plane", a.workerListCommand(), a.workerDescribeCommand())
}

// workerDescription is all that is known of a worker.
type workerDescription struct {
	resource.Worker
	Partitions []resource.Partition `json:"partitions"` // that it publishes
}

func workersIn(s resource.Status) []workerDescription {
	all := make([]workerDescription, len(s.Workers))
	for i, w := range s.Workers {
		all[i] = workerDescription{w, []resource.Partition{}}
		for _, p := range s.Partitions {
			if p.Publisher == w.Name {
				all[i].Partitions = append(all[i].Partitions, p)
			}
		}
	}
	return all
}

func (a workerCommands) workers(cmd *cobra.Command) ([]workerDescription, error) {
	c, err := a.client(cmd)
	if err != nil {
		return nil, err
	}
	s, err := c.Status(cmd.Context(), false)
	return workersIn(s), err
}

func (a workerCommands) workerListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List the workers of a plane", Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := a.workers(cmd)
			if err != nil {
				return err
			}
			return printList(&a.console, workerListing, all)
		},
	}
	a.clientFlags(cmd)
	a.listFlags(cmd, workerListing.headers)
	return cmd
}

var workerListing = listing[workerDescription]{
	kind: "worker", name: func(w workerDescription) string { return w.Name },
	columns: []column[workerDescription]{
		{"name", func(w workerDescription) string { return w.Name }, false},
		{"applied", func(w workerDescription) string { return fmt.Sprint(w.Applied) }, false},
		{"behind", func(w workerDescription) string { return fmt.Sprint(w.Lag) }, false},
		{"partitions", func(w workerDescription) string { return fmt.Sprint(len(w.Partitions)) }, false},
		{"started", func(w workerDescription) string { return stamp(w.Started) }, false},
		{"http", func(w workerDescription) string { return dash(w.HTTP) }, true},
		{"owner", func(w workerDescription) string { return w.Owner }, true},
	},
}

func (a workerCommands) workerDescribeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "describe NAME", Short: "Show a worker, what it publishes, and whether it is ready", Args: cli.Args(1, 1),
		Long: `Show a worker: where it answers, how far it has folded the log, and which partitions it
publishes up to where. The checks are those of the worker that was asked, where it is
that one.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := a.workers(cmd)
			if err != nil {
				return err
			}
			at := slices.IndexFunc(all, func(w workerDescription) bool { return w.Name == args[0] })
			if at < 0 {
				return cli.Failed(cli.NotFound, "no worker %.80q; 'edict worker list' lists them", args[0])
			}
			c, err := a.client(cmd)
			if err != nil {
				return err
			}
			checks := checksOf(cmd.Context(), c, all, at)
			return a.print(struct {
				workerDescription
				Checks []resource.Check `json:"checks,omitempty"`
			}{all[at], checks}, func(w io.Writer) { writeWorker(w, all[at], checks) })
		},
	}
	a.clientFlags(cmd)
	a.shownFlags(cmd)
	return cmd
}

// checksOf are the checks of a worker, if it is the one that answers; one alone is.
func checksOf(ctx context.Context, c *client.Client, all []workerDescription, at int) []resource.Check {
	if len(all) > 1 && withScheme(all[at].HTTP) != c.Server() {
		return nil
	}
	return readiness(ctx, c)
}

// readiness are the checks of the worker that answers, ready or not; none where
// nothing does.
func readiness(ctx context.Context, c *client.Client) []resource.Check {
	r, err := c.Ready(ctx)
	var unready *client.Problem
	if errors.As(err, &unready) {
		return unready.Checks
	}
	return r.Checks
}

func writeWorker(w io.Writer, d workerDescription, checks []resource.Check) {
	fmt.Fprintf(w, "Worker:      %s\nHTTP:        %s\nStarted:     %s\nApplied:     %d, %s behind\n", d.Name, dash(d.HTTP), stamp(d.Started), d.Applied, cli.Counted(d.Lag, "event"))
	fmt.Fprintf(w, "Publishes:   %s\n", cli.Counted(len(d.Partitions), "partition"))
	if len(checks) > 0 {
		rows := make([][]string, len(checks))
		for i, c := range checks {
			rows[i] = []string{c.Name, c.Status, c.Detail}
		}
		fmt.Fprintln(w)
		columns(w, []string{"check", "state", "detail"}, rows)
	}
}
