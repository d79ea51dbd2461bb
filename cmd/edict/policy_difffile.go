package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/edict/internal/author"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/policy"
)

// fileDiff is what applying one document would change; what stays is null.
type fileDiff struct {
	Slug        string        `json:"slug"`
	Outcome     string        `json:"outcome"` // as apply would tell it
	DisplayName *change       `json:"display_name"`
	Source      *change       `json:"source"`
	Destination *change       `json:"destination"`
	Reordered   bool          `json:"reordered"` // the rules stand in another order, or are repeated otherwise
	Rules       resource.Diff `json:"rules"`
}

type change struct {
	Before string `json:"before"`
	After  string `json:"after"`
}

func changed(before, after string) *change {
	if before == after {
		return nil
	}
	return &change{before, after}
}

func (a policyCommands) diffFiles(cmd *cobra.Command, files []string) error {
	c, project, drafts, err := a.planeAndDrafts(cmd, files)
	if err != nil {
		return err
	}
	all, err := fileDiffs(cmd.Context(), c, project, drafts)
	if err != nil {
		return err
	}
	if err := a.print(all, func(w io.Writer) { writeFileDiffs(w, all) }); err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(d fileDiff) bool { return d.Outcome != author.Unchanged }) {
		return cli.Exit(cli.Differs)
	}
	return nil
}

func fileDiffs(ctx context.Context, c *client.Client, project uuid.UUID, drafts []author.Draft) ([]fileDiff, error) {
	ids, err := policyIDs(ctx, c, project)
	if err != nil {
		return nil, err
	}
	all := make([]fileDiff, 0, len(drafts))
	for _, d := range drafts {
		diff, err := fileDiffOf(ctx, c, project, ids, d)
		if err != nil {
			return nil, err
		}
		all = append(all, diff)
	}
	return all, nil
}

// fileDiffOf compares one draft with the policies that exist, whose ids these are.
func fileDiffOf(ctx context.Context, c *client.Client, project uuid.UUID, ids map[string]uuid.UUID, d author.Draft) (diff fileDiff, err error) {
	after, err := decoded(d.Draft)
	if err != nil {
		return diff, err
	}
	id, exists := ids[d.Slug]
	if !exists {
		return firstDiff(after), nil
	}
	p, err := c.Policies.Get(ctx, project, id)
	if err != nil {
		return diff, err
	}
	before, err := decoded(resource.Draft{Slug: p.Slug, DisplayName: p.DisplayName, Selector: p.Head.Selector, Order: p.Head.Order, Rules: p.Head.Rules})
	if err != nil {
		return diff, err
	}
	return compare(before, after), nil
}

// decoded is a draft as the domain sees it, so that two that are written
// differently and mean the same compare equal.
func decoded(d resource.Draft) (policy.Draft, error) {
	body, err := json.Marshal(d)
	if err != nil {
		return policy.Draft{}, err
	}
	return policy.DecodeDraft(body)
}

func firstDiff(after policy.Draft) fileDiff {
	d := compare(policy.Draft{Slug: after.Slug}, after)
	d.Outcome = author.Created
	return d
}

// compare says what apply would make of a policy. A name that a document does
// not give stays.
func compare(before, after policy.Draft) fileDiff {
	if after.DisplayName == "" {
		after.DisplayName = before.DisplayName
	}
	d := fileDiff{
		Slug: after.Slug, Outcome: author.Configured,
		DisplayName: changed(before.DisplayName, after.DisplayName),
		Source:      changed(before.Selector.Source.String(), after.Selector.Source.String()),
		Destination: changed(before.Selector.Destination.String(), after.Selector.Destination.String()),
		Rules:       api.Compare(before.Content, after.Content),
	}
	d.Reordered = len(d.Rules.Added)+len(d.Rules.Removed)+len(d.Rules.Modified) == 0 &&
		!slices.Equal(before.Rules, after.Rules)
	same := d.Rules.Empty()
	if same && !d.Reordered && d.DisplayName == nil && d.Source == nil && d.Destination == nil {
		d.Outcome = author.Unchanged
	}
	return d
}

func writeFileDiffs(w io.Writer, all []fileDiff) {
	for _, d := range all {
		if d.Outcome == author.Unchanged {
			continue
		}
		fmt.Fprintf(w, "policy/%s %s\n", d.Slug, d.Outcome)
		for _, f := range []struct {
			name string
			*change
		}{{"name", d.DisplayName}, {"source", d.Source}, {"destination", d.Destination}} {
			if f.change != nil {
				fmt.Fprintf(w, "~ %s: %q -> %q\n", f.name, f.Before, f.After)
			}
		}
		if d.Reordered && !d.Rules.Reordered {
			fmt.Fprintln(w, "~ the same rules in another order")
		}
		writeDiff(w, d.Rules)
	}
}
