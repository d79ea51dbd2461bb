package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

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
			if publishes(w, p) {
				all[i].Partitions = append(all[i].Partitions, p)
			}
		}
	}
	return all
}

// publishes reports whether a worker publishes to a partition. Two may have one name, so its
// owner says; an older plane says the name alone.
func publishes(w resource.Worker, p resource.Partition) bool {
	if p.Owner == "" {
		return p.Publisher == w.Name
	}
	return p.Owner == w.Owner
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
		{"folded", func(w workerDescription) string { return fmt.Sprint(w.Applied) }, false},
		{"behind", func(w workerDescription) string { return fmt.Sprint(w.Lag) }, false},
		{"partitions", func(w workerDescription) string { return fmt.Sprint(len(w.Partitions)) }, false},
		{"started", func(w workerDescription) string { return stamp(w.Started) }, false},
		{"http", func(w workerDescription) string { return dash(w.HTTP) }, true},
		{"owner", func(w workerDescription) string { return w.Owner }, true},
	},
}

func (a workerCommands) workerDescribeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "describe NAME|OWNER", Short: "Show a worker, what it publishes, and whether it is ready", Args: cli.Args(1, 1),
		Long: `Show a worker: where it answers, how far it has folded the log, and which partitions it
publishes up to where. The checks are those of the worker that was asked, where it is
that one. Of two workers of one name say which by its owner, of 'edict worker list -o wide'.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := a.workers(cmd)
			if err != nil {
				return err
			}
			at, err := workerNamed(all, args[0])
			if err != nil {
				return err
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

// workerNamed is the place of a worker that is given by its name, or by its owner.
func workerNamed(all []workerDescription, name string) (int, error) {
	var owners []string
	found := -1
	for i, w := range all {
		if w.Owner == name {
			return i, nil
		}
		if w.Name == name {
			found, owners = i, append(owners, w.Owner)
		}
	}
	switch len(owners) {
	case 0:
		return 0, cli.Failed(cli.NotFound, "no worker %.80q; 'edict worker list' lists them", name)
	case 1:
		return found, nil
	}
	return 0, cli.Failed(cli.Conflict, "%d workers have the name %s; name one by its owner: %s", len(owners), name, strings.Join(owners, ", "))
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
