package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/backoff"
)

// What wait waits for.
const (
	waitApplied = "applied"
	waitDeleted = "deleted"
)

// waited is one thing that is waited for.
type waited struct{ kind, name string }

func (a *app) waitCommand() *cobra.Command {
	var what string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "wait policy/NAME|node/ID... --for applied|deleted", Short: "Wait until policies or nodes have come so far", Args: cli.Args(1, -1),
		Long: `Wait until a policy is applied, which is: all nodes that it is for report that they
applied its head; or until a node is, which is: it reports that it applied all that it
must. Or until they are deleted. While the plane is away it is asked again. Exit codes: 0 all have come so far, 1 the time is up.`,
		Example: `  edict wait policy/shop-app-to-db --for applied --timeout 2m
  edict wait node/db-1 node/web-1`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkTimeout(cmd, timeout); err != nil {
				return err
			}
			list, err := readWaited(cmd, args, what)
			if err != nil {
				return err
			}
			c, project, err := a.plane(cmd)
			if err != nil {
				return err
			}
			return a.wait(cmd.Context(), waitingFor{c, project, what}, list, timeout)
		},
	}
	a.clientFlags(cmd)
	a.projectFlag(cmd)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
		if !strings.Contains(begin, "/") {
			return []string{"policy/", "node/"}, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		}
		return a.asked(waitedNames)(cmd, args, begin)
	}
	cmd.Flags().StringVar(&what, "for", waitApplied, "applied or deleted")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "give up after; 0 never")
	return cmd
}

// checkTimeout refuses a time to give up after that is none: who computed it did not mean to
// wait for ever.
func checkTimeout(cmd *cobra.Command, timeout time.Duration) error {
	if timeout < 0 {
		return cli.Usage(cmd, "--timeout %v: want a time such as 2m, or 0 to wait without end", timeout)
	}
	return nil
}

func readWaited(cmd *cobra.Command, args []string, what string) (list []waited, err error) {
	if what != waitApplied && what != waitDeleted {
		return nil, cli.Usage(cmd, "--for %.80q: want applied or deleted", what)
	}
	for _, arg := range args {
		kind, name, _ := strings.Cut(arg, "/")
		if kind != "policy" && kind != "node" || name == "" {
			return nil, cli.Usage(cmd, "%.80q: want policy/NAME or node/ID", arg)
		}
		list = append(list, waited{kind, name})
	}
	return list, nil
}

// waitingFor is whom wait asks, and what for.
type waitingFor struct {
	client  *client.Client
	project uuid.UUID
	what    string
}

// wait asks about each thing again and again. What is not there cannot become applied.
func (a *app) wait(ctx context.Context, q waitingFor, list []waited, timeout time.Duration) error {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	for _, x := range list {
		if err := a.waitOne(ctx, q, x); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) waitOne(ctx context.Context, q waitingFor, x waited) error {
	said := false // that the plane is away
	for last := ""; ; {
		state, err := q.state(ctx, x)
		switch {
		case ctx.Err() != nil:
			return q.late(ctx, x, last)
		case err != nil && (last == "" || !isAway(err)):
			return err
		case err != nil && !said:
			fmt.Fprintln(a.stderr, "edict: "+printable(err))
			said = true
		case err != nil:
		case state == q.what:
			_, err := fmt.Fprintf(a.stdout, "%s/%s %s\n", x.kind, x.name, state)
			return err
		default:
			last, said = state, false
		}
		if backoff.Sleep(ctx, rolloutPause) != nil {
			return q.late(ctx, x, last)
		}
	}
}

// late says how far it had come when the time was up.
func (q waitingFor) late(ctx context.Context, x waited, state string) error {
	if context.Cause(ctx) != context.DeadlineExceeded { //nolint:errorlint // its own
		return ctx.Err()
	}
	return cli.Failed(cli.Differs, "%s/%s is not %s in time: %s", x.kind, x.name, q.what, dash(state))
}

// state is how far x has come: what is waited for, or what is said of it when the
// time is up.
func (q waitingFor) state(ctx context.Context, x waited) (string, error) {
	ask := q.ofPolicy
	if x.kind == "node" {
		ask = q.ofNode
	}
	state, err := ask(ctx, x.name)
	switch {
	case q.what != waitDeleted:
		return state, err
	case err == nil:
		return "it is there", nil
	case exitCode(err) == cli.NotFound:
		return waitDeleted, nil
	}
	return "", err
}

func (q waitingFor) ofPolicy(ctx context.Context, name string) (string, error) {
	p, err := findPolicy(ctx, q.client, q.project, name)
	if err != nil {
		return "", err
	}
	r, err := q.client.Policies.Rollout(ctx, q.project, p.ID, 1)
	if err != nil {
		return "", err
	}
	if len(r.Lagging) == 0 && len(r.Refusals) == 0 && !underWay(r) {
		return waitApplied, nil
	}
	return rolloutLine(r, p), nil
}

func (q waitingFor) ofNode(ctx context.Context, id string) (string, error) {
	d, err := describeNode(ctx, q.client, q.project, id)
	if err != nil {
		return "", err
	}
	applied := 0
	for _, p := range d.Policies {
		if p.State == stateApplied {
			applied++
		}
	}
	if applied == len(d.Policies) && d.Refused == nil {
		return waitApplied, nil
	}
	return fmt.Sprintf("%d of %s applied", applied, cli.Counted(len(d.Policies), "policy")), nil
}
