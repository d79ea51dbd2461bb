package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
)

// policyDescription is all that concerns one policy.
type policyDescription struct {
	resource.Policy
	Rollout   resource.Rollout    `json:"rollout"`
	Revisions []resource.Revision `json:"revisions"` // newest first
}

// maxRevisions is how many revisions a page about a policy lists.
const maxRevisions = 10

func (a policyCommands) policyDescribeCommand() *cobra.Command {
	cmd := a.shownPolicy("describe", "Show a policy, its nodes, its rollout and its revisions", func(cmd *cobra.Command, c *client.Client, p resource.Policy) error {
		d := policyDescription{Policy: p}
		var err error
		if d.Rollout, err = c.Policies.Rollout(cmd.Context(), p.ProjectID, p.ID, 0); err != nil {
			return err
		}
		page, err := c.Policies.Revisions(cmd.Context(), p.ProjectID, p.ID, client.Page{Limit: maxRevisions})
		if err != nil {
			return err
		}
		d.Revisions = page.Items
		return a.print(d, func(w io.Writer) { writePolicyDescription(w, d, page.NextCursor != nil) })
	})
	cmd.Long = fmt.Sprintf(`Show what concerns one policy: what it says, how many nodes must have it, have it and
lag, how far its rollout has come, and its newest revisions, at most %d.`, maxRevisions)
	return cmd
}

func writePolicyDescription(w io.Writer, d policyDescription, more bool) {
	d.Waves = nil // the rollout has it
	writePolicy(w, d.Policy)
	fmt.Fprintln(w)
	writeRollout(w, d.Rollout, d.Policy)
	fmt.Fprintln(w)
	short := revisionListing
	short.columns = slices.DeleteFunc(slices.Clone(short.columns), func(c column[resource.Revision]) bool { return slices.Contains(short.spare, c.header) })
	short.write(w, d.Revisions, false)
	if more {
		fmt.Fprintf(w, "older ones: edict policy revisions %s\n", d.Slug)
	}
}
