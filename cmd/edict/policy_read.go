package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/policy"
)

// onePolicy is a command that reads the policy it is given by slug or id.
func (a policyCommands) onePolicy(use, short string, run func(cmd *cobra.Command, c *client.Client, p resource.Policy) error) *cobra.Command {
	return a.onePolicyAs(a.outputFlag, use, short, run)
}

// shownPolicy is onePolicy of those that show it, and follow it with -w.
func (a policyCommands) shownPolicy(use, short string, run func(cmd *cobra.Command, c *client.Client, p resource.Policy) error) *cobra.Command {
	return a.onePolicyAs(a.shownFlags, use, short, run)
}

// onePolicyAs is onePolicy with the formats that a command has.
func (a policyCommands) onePolicyAs(formats func(*cobra.Command), use, short string, run func(cmd *cobra.Command, c *client.Client, p resource.Policy) error) *cobra.Command {
	cmd := &cobra.Command{
		Use: use + " NAME|ID", Short: short, Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, p, err := a.namedPolicy(cmd, args[0])
			if err != nil {
				return err
			}
			return run(cmd, c, p)
		},
	}
	a.clientFlags(cmd)
	a.projectFlag(cmd)
	formats(cmd)
	return cmd
}

func (a policyCommands) policyGetCommand() *cobra.Command {
	var at string
	cmd := a.shownPolicy("get", "Show a policy and its rules, now or at a moment of the past", func(_ *cobra.Command, _ *client.Client, p resource.Policy) error {
		return a.print(p, func(w io.Writer) { writePolicy(w, p) })
	})
	cmd.Example = `  edict policy get web
  edict policy get web --at 4711    # after event 4711: what is under SEQ of edict policy revisions
  edict policy get 01924d0c-9a3b-7c4e-8f21-3b5d6e7f8a90 --at 2026-11-17T12:00:00Z   # deleted since: by its id`
	atFlag(cmd, &at)
	now := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if at == "" {
			return now(cmd, args)
		}
		if cmd.Flags().Changed("watch") {
			return cli.Usage(cmd, "--at shows the past, which does not change: leave --watch away")
		}
		if err := checkMoment(cmd, "at", &at); err != nil {
			return err
		}
		c, project, err := a.plane(cmd)
		if err != nil {
			return err
		}
		p, err := policyAt(cmd.Context(), c, project, args[0], at)
		if err != nil {
			return err
		}
		return a.print(p, func(w io.Writer) { writePolicy(w, p) })
	}
	return cmd
}

// policyAt reads a policy as it was. A slug is that of a policy that there is now.
func policyAt(ctx context.Context, c *client.Client, project uuid.UUID, name, at string) (resource.Policy, error) {
	id, err := idOfPolicy(ctx, c, project, name)
	if err != nil {
		return resource.Policy{}, err
	}
	p, err := c.Policies.GetAt(ctx, project, id, at)
	return p, atMoment(err, "policy "+name, at)
}

func writePolicy(w io.Writer, p resource.Policy) {
	fmt.Fprintf(w, "Slug:         %s\n", p.Slug)
	if p.DisplayName != "" {
		fmt.Fprintf(w, "Name:         %s\n", cli.Escaped(p.DisplayName, ""))
	}
	fmt.Fprintf(w, "ID:           %s\nRevision:     %s\nUpdated:      %s\n", p.ID, p.HeadRevisionID, stamp(p.UpdatedAt))
	if p.Waves != nil {
		fmt.Fprintf(w, "Rollout:      %s\n", wavesLine(*p.Waves, p.HeadRevisionID))
	}
	if p.Head == nil {
		return
	}
	fmt.Fprintf(w, "By:           %s\nSource:       %s\nDestination:  %s\n", cli.Escaped(p.Head.CreatedBy, ""), p.Head.Selector.Source, p.Head.Selector.Destination)
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
	cmd := &cobra.Command{
		Use: "list", Short: "List the policies of a project",
		Long: `List the policies of a project by slug, and below them the rollouts that have not ended, or
that were aborted with a reason, until the policy is revised. With -o json, ndjson or yaml each has its rules, so
that 'edict policy import' can bring them to another plane. -o wide shows ids, too.`,
		Example: `  edict policy list --sort-by -updated
  edict policy list -o jsonpath='{range [*]}{.slug}{"\n"}{end}'`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, project, err := a.plane(cmd)
			if err != nil {
				return err
			}
			all, err := collect(c.Policies.All(cmd.Context(), project))
			if err == nil && !a.forPeople() && a.format != formatName {
				all, err = withHeads(cmd.Context(), c, all)
			}
			if err != nil {
				return err
			}
			slices.SortFunc(all, func(x, y resource.Policy) int { return cmp.Compare(x.Slug, y.Slug) })
			return printList(&a.console, policyListing, all)
		},
	}
	a.clientFlags(cmd)
	a.projectFlag(cmd)
	a.listFlags(cmd, policyListing.headers)
	return cmd
}

var policyListing = listing[resource.Policy]{
	kind: "policy", name: func(p resource.Policy) string { return p.Slug },
	columns: []column[resource.Policy]{
		{"slug", func(p resource.Policy) string { return p.Slug }, false},
		{"name", func(p resource.Policy) string { return p.DisplayName }, false},
		{"tier", func(p resource.Policy) string { tier, _ := levelCells(p.Order); return tier }, false},
		{"priority", func(p resource.Policy) string { _, priority := levelCells(p.Order); return priority }, false},
		{"mode", func(p resource.Policy) string { return cmp.Or(p.Mode, string(policy.Enforce)) }, false},
		{"updated", func(p resource.Policy) string { return stamp(p.UpdatedAt) }, false},
		{"revision", func(p resource.Policy) string { return p.HeadRevisionID.String() }, true},
		{"id", func(p resource.Policy) string { return p.ID.String() }, true},
	},
	below: writeRollouts,
}

// writeRollouts lists the policies that nodes have different revisions of, or that
// have one staged.
func writeRollouts(w io.Writer, all []resource.Policy) {
	var rows [][]string
	for _, p := range all {
		if p.Waves == nil || p.Waves.Phase == "completed" || p.Waves.Phase == "aborted" && p.Waves.Reason == "" || earlier(*p.Waves, p.HeadRevisionID) {
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
	listed := func(cmd *cobra.Command) { a.listFlags(cmd, revisionListing.headers) }
	return a.onePolicyAs(listed, "revisions", "List what a policy has said, newest first", func(cmd *cobra.Command, c *client.Client, p resource.Policy) error {
		all, err := collect(c.Policies.AllRevisions(cmd.Context(), p.ProjectID, p.ID))
		if err != nil {
			return err
		}
		return printList(&a.console, revisionListing, all)
	})
}

var revisionListing = listing[resource.Revision]{
	spare: []string{"source", "destination"},
	kind:  "revision", name: func(r resource.Revision) string { return r.ID.String() },
	columns: []column[resource.Revision]{
		{"seq", func(r resource.Revision) string { return fmt.Sprint(r.Seq) }, false},
		{"revision", func(r resource.Revision) string { return r.ID.String() }, false},
		{"created", func(r resource.Revision) string { return stamp(r.CreatedAt) }, false},
		{"by", func(r resource.Revision) string { return r.CreatedBy }, false},
		{"rules", func(r resource.Revision) string { return fmt.Sprint(len(r.Rules)) }, false},
		{"source", func(r resource.Revision) string { return r.Selector.Source }, false},
		{"destination", func(r resource.Revision) string { return r.Selector.Destination }, false},
	},
}
