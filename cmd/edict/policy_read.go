package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/policy"
)

// onePolicy is a command that reads the policy it is given by slug or id.
func (a policyCommands) onePolicy(use, short string, run func(cmd *cobra.Command, c *client.Client, p resource.Policy) error) *cobra.Command {
	return a.policyClient(&cobra.Command{
		Use: use + " NAME|ID", Short: short, Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, project, err := a.plane(cmd)
			if err != nil {
				return err
			}
			p, err := findPolicy(cmd.Context(), c, project, args[0])
			if err != nil {
				return err
			}
			return run(cmd, c, p)
		},
	})
}

func (a policyCommands) policyGetCommand() *cobra.Command {
	return a.onePolicy("get", "Show a policy and its rules", func(_ *cobra.Command, _ *client.Client, p resource.Policy) error {
		return a.print(p, func(w io.Writer) { writePolicy(w, p) })
	})
}

func writePolicy(w io.Writer, p resource.Policy) {
	fmt.Fprintf(w, "Slug:         %s\n", p.Slug)
	if p.DisplayName != "" {
		fmt.Fprintf(w, "Name:         %s\n", p.DisplayName)
	}
	fmt.Fprintf(w, "ID:           %s\nRevision:     %s\nUpdated:      %s\n", p.ID, p.HeadRevisionID, stamp(p.UpdatedAt))
	if p.Waves != nil {
		fmt.Fprintf(w, "Rollout:      %s\n", wavesLine(*p.Waves))
	}
	if p.Head == nil {
		return
	}
	fmt.Fprintf(w, "By:           %s\nSource:       %s\nDestination:  %s\n", p.Head.CreatedBy, p.Head.Selector.Source, p.Head.Selector.Destination)
	writeOrder(w, p.Head.Order)
	fmt.Fprintln(w)
	writeRules(w, p.Head.Rules)
}

// writeOrder says what a revision sets of its place among others.
func writeOrder(w io.Writer, o resource.Order) {
	if o.Tier != "" {
		fmt.Fprintf(w, "Tier:         %s\n", o.Tier)
	}
	if o.Priority != nil {
		fmt.Fprintf(w, "Priority:     %d\n", *o.Priority)
	}
	if o.DefaultDeny != nil {
		fmt.Fprintf(w, "Default deny: %t\n", *o.DefaultDeny)
	}
	if o.Mode != "" {
		fmt.Fprintf(w, "Mode:         %s\n", o.Mode)
	}
}

func writeRules(w io.Writer, rules []resource.Rule) {
	rows := make([][]string, len(rules))
	for i, r := range rules {
		rows[i] = ruleCells(r)
	}
	columns(w, []string{"action", "protocol", "ports", "source", "destination"}, rows)
}

func ruleCells(r resource.Rule) []string {
	ports := "-"
	if r.Ports != nil {
		ports = fmt.Sprint(r.Ports.From)
		if r.Ports.To != r.Ports.From {
			ports += fmt.Sprintf("-%d", r.Ports.To)
		}
	}
	action := r.Action
	if r.ProxyPort != 0 {
		action += fmt.Sprintf(" to %d", r.ProxyPort)
	}
	if r.ListenerPriority != 0 {
		action += fmt.Sprintf(" (listener %d)", r.ListenerPriority)
	}
	if r.Auth != "" {
		action += ", auth " + r.Auth
	}
	if r.Direction != "" {
		action += ", " + r.Direction + " only"
	}
	return []string{action, r.Protocol, ports, r.SourceCIDR + r.SourceSelector, r.DestinationCIDR + r.DestinationSelector}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func (a policyCommands) policyListCommand() *cobra.Command {
	return a.policyClient(&cobra.Command{
		Use: "list", Short: "List the policies of a project",
		Long: `List the policies of a project, and below them the rollouts that have not ended, or
that were aborted with a reason. With -o json or yaml each has its rules, so that
'edict policy import' can bring them to another plane.`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, project, err := a.plane(cmd)
			if err != nil {
				return err
			}
			all, err := collect(c.Policies.All(cmd.Context(), project))
			if err == nil && a.format != formatTable {
				all, err = withHeads(cmd.Context(), c, all)
			}
			if err != nil {
				return err
			}
			return a.print(all, func(w io.Writer) {
				rows := make([][]string, len(all))
				for i, p := range all {
					tier, priority := levelCells(p.Order)
					rows[i] = []string{p.Slug, p.DisplayName, tier, priority, cmp.Or(p.Mode, string(policy.Enforce)), stamp(p.UpdatedAt), p.HeadRevisionID.String(), p.ID.String()}
				}
				columns(w, []string{"slug", "name", "tier", "priority", "mode", "updated", "revision", "id"}, rows)
				writeRollouts(w, all)
			})
		},
	})
}

// writeRollouts lists the policies that nodes have different revisions of, or that
// have one staged.
func writeRollouts(w io.Writer, all []resource.Policy) {
	var rows [][]string
	for _, p := range all {
		if p.Waves == nil || p.Waves.Phase == "completed" || p.Waves.Phase == "aborted" && p.Waves.Reason == "" {
			continue
		}
		rows = append(rows, []string{p.Slug, phaseOf(*p.Waves), p.Waves.RevisionID.String(), p.Waves.Reason})
	}
	if len(rows) > 0 {
		fmt.Fprintln(w)
		columns(w, []string{"slug", "rollout", "revision", "why"}, rows)
	}
}

// levelCells are the tier and priority at which rules stand; dashes of a policy that
// sets neither, whose rules go by class.
func levelCells(o resource.Order) (tier, priority string) {
	if o.Tier == "" && o.Priority == nil {
		return "-", "-"
	}
	order := policy.Order{Tier: policy.Tier(o.Tier)}
	if o.Priority != nil {
		order.Priority = policy.Priority{N: *o.Priority, Set: true}
	}
	name, n := order.Level()
	return string(name), fmt.Sprint(n)
}

// collect makes a list, empty rather than nil, out of what is walked.
func collect[T any](walk iter.Seq2[T, error]) ([]T, error) {
	all := []T{}
	for x, err := range walk {
		if err != nil {
			return nil, err
		}
		all = append(all, x)
	}
	return all, nil
}

// withHeads reads the heads of listed policies. What was deleted since the
// list was read is left out.
func withHeads(ctx context.Context, c *client.Client, listed []resource.Policy) ([]resource.Policy, error) {
	const atOnce = 16
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i, p := range listed {
		g.Go(func() error {
			full, err := c.Policies.Get(ctx, p.ProjectID, p.ID)
			if codeOf(err) == cli.NotFound {
				return nil
			}
			listed[i] = full
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(listed, func(p resource.Policy) bool { return p.Head == nil }), nil
}

func (a policyCommands) policyRevisionsCommand() *cobra.Command {
	return a.onePolicy("revisions", "List what a policy has said, newest first", func(cmd *cobra.Command, c *client.Client, p resource.Policy) error {
		all, err := collect(c.Policies.AllRevisions(cmd.Context(), p.ProjectID, p.ID))
		if err != nil {
			return err
		}
		return a.print(all, func(w io.Writer) {
			rows := make([][]string, len(all))
			for i, r := range all {
				rows[i] = []string{r.ID.String(), stamp(r.CreatedAt), r.CreatedBy, fmt.Sprint(len(r.Rules)), r.Selector.Source, r.Selector.Destination}
			}
			columns(w, []string{"revision", "created", "by", "rules", "source", "destination"}, rows)
		})
	})
}
