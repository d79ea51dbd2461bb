package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/edict/internal/author"
	"github.com/edictdev/edict/cmd/internal/cli"
)

// dryRun is what one document would do.
type dryRun struct {
	Slug    string `json:"slug"`
	Outcome string `json:"outcome,omitempty"` // of a policy that would go, deleted; of one that would stay as it is, unchanged
	resource.DryRun
}

func (a policyCommands) policyDryRunCommand() *cobra.Command {
	var files []string
	cmd := &cobra.Command{
		Use:   "dry-run -f FILE...",
		Short: "Say what applying files would change, and change nothing",
		Long: `Show what applying files would change: which nodes the policy would match, which rules
would be added and removed, and how many kinds of flows would be denied, allowed or altered;
'edict policy plan' shows some of these. Nothing is written. Exit code 1 when rules would change.`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.policyDryRun(cmd, files) },
	}
	a.policyClient(cmd)
	filesFlag(cmd, &files)
	return cmd
}

// dryPolicies judge writes one after another and make none. A project whose quota may not be
// seen is taken for one without.
func dryPolicies(ctx context.Context, c *client.Client, project uuid.UUID) author.Policies {
	of, _ := c.Projects.Get(ctx, project)
	return author.DryRun(c.Policies, of)
}

// dry says what applying would change, and what the plane would refuse of it.
func (a applying) dry(ctx context.Context) error {
	results, err := author.Apply(ctx, dryPolicies(ctx, a.c, a.project), a.project, a.drafts, func() {})
	if err != nil {
		return err
	}
	var taken []author.Draft
	var others []applied
	refused := cli.Fine
	for i, r := range results {
		switch {
		case r.Err == nil && r.Outcome == author.Unchanged:
			others = append(others, applied{Slug: a.drafts[i].Slug, Outcome: r.Outcome})
			continue
		case r.Err == nil:
			taken = append(taken, a.drafts[i])
			continue
		}
		refused = max(refused, codeOf(r.Err))
		a.tellRefused(a.drafts[i], r.Err)
	}
	if refused == cli.Fine {
		gone, err := a.deleteOthers(ctx, true)
		if err != nil {
			return err
		}
		others = append(others, gone...)
	}
	err = a.effects(ctx, a.c, a.project, taken, others...)
	if refused != cli.Fine {
		return cli.Exit(refused)
	}
	return err
}

// policyDryRun says what applying files would change.
func (a policyCommands) policyDryRun(cmd *cobra.Command, files []string) error {
	c, project, drafts, err := a.planeAndDrafts(cmd, files)
	if err != nil {
		return err
	}
	return a.effects(cmd.Context(), c, project, drafts)
}

// effects prints what drafts would change, and which other policies would go or stay. It is exit
// code 1 when rules would change, or a policy go.
func (a policyCommands) effects(ctx context.Context, c *client.Client, project uuid.UUID, drafts []author.Draft, others ...applied) error {
	all, err := dryRuns(ctx, c, project, drafts)
	if err != nil {
		return err
	}
	shown := all
	for _, x := range others {
		shown = append(shown, dryRun{x.Slug, x.Outcome, nothingChanged()})
	}
	for _, d := range all {
		if x := d.Admission; x != nil {
			a.tellPatches(d.Slug, x.Patches)
		}
	}
	err = a.print(shown, func(w io.Writer) {
		writeDryRuns(w, all)
		for _, x := range others {
			fmt.Fprintf(w, "policy/%s %s%s\n", x.Slug, x.Outcome, dryNote(true))
		}
	})
	if err != nil {
		return err
	}
	if slices.ContainsFunc(others, func(x applied) bool { return x.Outcome != author.Unchanged }) {
		return cli.Exit(cli.Differs)
	}
	for _, d := range all {
		if err := differs(d.RuleDiff); err != nil {
			return err
		}
	}
	return nil
}

// nothingChanged is a dry run that was not asked for, with the lists that programs look into.
func nothingChanged() resource.DryRun {
	return resource.DryRun{
		MatchedNodeIDs: []string{}, UnreachableNodeIDs: []string{}, Warnings: []resource.Warning{},
		RuleDiff: resource.Diff{Added: []resource.Rule{}, Removed: []resource.Rule{}, Modified: []resource.Modified{}},
	}
}

func dryRuns(ctx context.Context, c *client.Client, project uuid.UUID, drafts []author.Draft) ([]dryRun, error) {
	ids, err := policyIDs(ctx, c, project)
	if err != nil {
		return nil, err
	}
	all := make([]dryRun, 0, len(drafts))
	for _, d := range drafts {
		r, err := dryRunOf(ctx, c, project, ids, d)
		if err != nil {
			return nil, err
		}
		all = append(all, dryRun{Slug: d.Slug, DryRun: r})
	}
	return all, nil
}

// dryRunOf asks what one draft would do; ids are those of the policies that exist.
func dryRunOf(ctx context.Context, c *client.Client, project uuid.UUID, ids map[string]uuid.UUID, d author.Draft) (r resource.DryRun, err error) {
	preview := resource.Preview{Selector: d.Selector, Order: d.Order, Rules: d.Rules}
	if id, exists := ids[d.Slug]; exists {
		r, err = c.Policies.DryRun(ctx, project, id, preview)
	} else {
		r, err = c.Policies.DryRunNew(ctx, project, resource.NewPreview{Slug: d.Slug, DisplayName: d.DisplayName, Preview: preview})
	}
	if err != nil {
		return r, fmt.Errorf("policy %s: %w", d.Slug, err)
	}
	return r, nil
}

// policyIDs are the ids of a project's policies, by slug.
func policyIDs(ctx context.Context, c *client.Client, project uuid.UUID) (map[string]uuid.UUID, error) {
	ids := map[string]uuid.UUID{}
	for p, err := range c.Policies.All(ctx, project) {
		if err != nil {
			return nil, err
		}
		ids[p.Slug] = p.ID
	}
	return ids, nil
}

func writeDryRuns(w io.Writer, all []dryRun) {
	for _, d := range all {
		text := fmt.Sprintf("policy/%s would match %s (%d without an address); rules: %d added, %d removed, %d modified",
			d.Slug, cli.Counted(len(d.MatchedNodeIDs), "node"), len(d.UnreachableNodeIDs),
			len(d.RuleDiff.Added), len(d.RuleDiff.Removed), len(d.RuleDiff.Modified))
		if d.Flows != nil { // what the selector's sides make of pairs says little of them: rules are between addresses, too
			text += "; " + flowsText(*d.Flows)
		}
		fmt.Fprintln(w, text)
		for _, f := range d.Warnings {
			fmt.Fprintln(w, "warning: "+warningText(f))
		}
		writeDiff(w, d.RuleDiff)
	}
}

// warningText is a warning of a dry run: where in the policy, what, and the code.
func warningText(w resource.Warning) string {
	return fmt.Sprintf("%s: %s (%s)", w.Pointer, w.Detail, w.Code)
}
