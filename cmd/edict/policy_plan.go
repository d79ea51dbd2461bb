package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/edict/internal/author"
	"github.com/edictdev/edict/cmd/edict/internal/progress"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/projector"
)

// maxExamples is how many flows of a policy a dry run of the plane gives.
const maxExamples = 10

// planned is what applying one document would do.
type planned struct {
	Slug    string           `json:"slug"`
	Outcome string           `json:"outcome"` // as apply would tell it
	DryRun  *resource.DryRun `json:"dry_run"` // null of one that stays
}

func (a policyCommands) policyPlanCommand() *cobra.Command {
	var files []string
	var examples int
	cmd := &cobra.Command{
		Use:   "plan -f FILE...",
		Short: "Show what applying files would do to nodes and flows",
		Long: `Show what 'policy apply' would do: which policies it would create and revise, how
many nodes and rules would change, and which flows would be allowed or denied that
are not now, with examples. Flows are counted by kind: all flows that the old and the new
rules answer alike are one, as those to each port of a range. Each policy is compared with
what is there now, one after the other: what they would do together is not shown. Nothing
is written. Exit code 1 when a policy would be created or revised.`,
		Example: `  edict policy plan -f policies/
  edict policy plan -f web.yaml -o json`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if examples < 0 || examples > maxExamples {
				return cli.Usage(cmd, "--examples %d: want 0 to %d", examples, maxExamples)
			}
			return a.policyPlan(cmd, files, examples)
		},
	}
	a.policyClient(cmd)
	filesFlag(cmd, &files)
	cmd.Flags().IntVar(&examples, "examples", 3, fmt.Sprintf("how many flows to show of a policy, 0 to %d", maxExamples))
	return cmd
}

func (a policyCommands) policyPlan(cmd *cobra.Command, files []string, examples int) error {
	c, project, drafts, err := a.planeAndDrafts(cmd, files)
	if err != nil {
		return err
	}
	bar := progress.Start(a.stderr, "planning", "policies", int64(len(drafts)))
	all, err := plans(cmd.Context(), c, project, drafts, func() { bar.Add(1) })
	bar.Stop()
	if err != nil {
		return err
	}
	if err := a.print(all, func(w io.Writer) { writePlans(w, all, examples) }); err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(p planned) bool { return p.Outcome != author.Unchanged }) {
		return cli.Exit(cli.Differs)
	}
	return nil
}

// plans asks about every draft that would change something.
func plans(ctx context.Context, c *client.Client, project uuid.UUID, drafts []author.Draft, done func()) ([]planned, error) {
	ids, err := policyIDs(ctx, c, project)
	if err != nil {
		return nil, err
	}
	all := make([]planned, 0, len(drafts))
	for _, d := range drafts {
		p := planned{Slug: d.Slug}
		if p.Outcome, err = outcomeOf(ctx, c, project, ids, d); err != nil {
			return nil, err
		}
		if p.Outcome != author.Unchanged {
			r, err := dryRunOf(ctx, c, project, ids, d)
			if err != nil {
				return nil, err
			}
			p.DryRun = &r
		}
		all = append(all, p)
		done()
	}
	return all, nil
}

// outcomeOf is what apply would tell of a draft. The plane says it: what admission policies make
// of a draft may be what is there. While a revision is rolled out apply is refused, and a plan
// says what it would do after that.
func outcomeOf(ctx context.Context, c *client.Client, project uuid.UUID, ids map[string]uuid.UUID, d author.Draft) (string, error) {
	id, exists := ids[d.Slug]
	if !exists {
		return author.Created, nil
	}
	stays, err := c.Policies.Revise(ctx, project, id, d.Patch(), client.DryRun)
	var refused *client.Problem
	switch {
	case errors.As(err, &refused) && refused.Code == projector.CodeRolloutUnderWay:
		return author.Configured, nil
	case err != nil:
		return "", fmt.Errorf("policy %s: %w", d.Slug, err)
	case stays.HeadRevisionID == uuid.Nil:
		return author.Configured, nil
	}
	return author.Unchanged, nil
}

// writePlans writes a line for each policy, then for those of which there is more to
// say their examples and warnings, and a summary.
func writePlans(w io.Writer, all []planned, examples int) {
	rows := make([][]string, len(all))
	for i, p := range all {
		rows[i] = p.cells()
	}
	columns(w, []string{"policy", "outcome", "nodes", "changed", "rules", "denied", "allowed", "altered"}, rows)
	for _, p := range all {
		p.write(w, examples)
	}
	fmt.Fprintln(w)
	writeSummary(w, all)
}

func (p planned) cells() []string {
	cells := []string{p.Slug, p.Outcome, "-", "-", "-", "-", "-", "-"}
	if p.DryRun == nil {
		return cells
	}
	d := p.DryRun.RuleDiff
	cells[2], cells[4] = fmt.Sprint(len(p.DryRun.MatchedNodeIDs)), fmt.Sprintf("+%d -%d ~%d", len(d.Added), len(d.Removed), len(d.Modified))
	if f := p.DryRun.Flows; f != nil {
		cells[2], cells[3] = nodeCount(f.Nodes), nodeCount(f.Changed)
		cells[5], cells[6], cells[7] = fmt.Sprint(f.Denied), fmt.Sprint(f.Allowed), fmt.Sprint(f.Altered)
	}
	return cells
}

// nodeCount is a number of nodes; + where there may be more.
func nodeCount(n resource.NodeCount) string {
	if n.AtLeast {
		return fmt.Sprintf("%d+", n.Count)
	}
	return fmt.Sprint(n.Count)
}

// write writes what is to be said of one policy beside its line.
func (p planned) write(w io.Writer, examples int) {
	if p.DryRun == nil {
		return
	}
	var lines []string
	about := "policy/" + p.Slug
	if f := p.DryRun.Flows; f != nil {
		shown := min(examples, len(f.Examples))
		for _, x := range f.Examples[:shown] {
			lines = append(lines, exampleText(p.Slug, x))
		}
		if all := f.Denied + f.Allowed + f.Altered; shown > 0 && uint64(shown) < all {
			about += fmt.Sprintf(": %d of %d kinds of flows that would change", shown, all)
		}
		if f.Skipped.Count > 0 || f.Skipped.AtLeast {
			lines = append(lines, fmt.Sprintf("not compared: %s nodes, whose tables are refused or take too much work", nodeCount(f.Skipped)))
		}
		if f.Sampled {
			lines = append(lines, "there are more kinds of flows than were compared")
		}
	}
	for _, x := range p.DryRun.Warnings {
		lines = append(lines, "warning: "+warningText(x))
	}
	if len(lines) > 0 {
		fmt.Fprintf(w, "\n%s\n", about)
	}
	for _, l := range lines {
		fmt.Fprintln(w, cli.Indented(w, "  ", l))
	}
}

// exampleText is a flow that changes. A rule without a slug is of the policy itself,
// which does not exist yet.
func exampleText(slug string, x resource.FlowChange) string {
	by := func(d resource.FlowDecision) string {
		text := d.Verdict + verdictExtras(d.ProxyPort, d.Auth)
		if d.Rule == nil {
			return text + " (default)"
		}
		return fmt.Sprintf("%s (%s)", text, ruleText(cmp.Or(d.Rule.Slug, slug), d.Rule.Index))
	}
	way := "to"
	if x.Direction == "ingress" {
		way = "from"
	}
	port := ""
	if x.Port != 0 {
		port = fmt.Sprintf(" %d", x.Port)
	}
	return fmt.Sprintf("%s %s %s %s, %s%s: %s -> %s", x.NodeID, x.Direction, way, x.Peer, x.Protocol, port, by(x.Before), by(x.After))
}

func writeSummary(w io.Writer, all []planned) {
	count, warnings, flows := map[string]int{}, 0, resource.FlowChanges{}
	for _, p := range all {
		if count[p.Outcome]++; p.DryRun == nil {
			continue
		}
		warnings += len(p.DryRun.Warnings)
		if f := p.DryRun.Flows; f != nil {
			flows.Denied, flows.Allowed, flows.Altered = flows.Denied+f.Denied, flows.Allowed+f.Allowed, flows.Altered+f.Altered
		}
	}
	fmt.Fprintf(w, "%s: %d to create, %d to configure, %d unchanged; %s; %s; nothing was written\n",
		cli.Counted(len(all), "policy"), count[author.Created], count[author.Configured], count[author.Unchanged], flowsText(flows), cli.Counted(warnings, "warning"))
}

// flowsText counts what would become of flows.
func flowsText(f resource.FlowChanges) string {
	return fmt.Sprintf("kinds of flows: %d denied, %d allowed, %d altered", f.Denied, f.Allowed, f.Altered)
}
