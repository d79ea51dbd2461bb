package main

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/cmd/internal/cli"
)

func (a policyCommands) policyDeleteCommand() *cobra.Command {
	var files []string
	var dry bool
	cmd := &cobra.Command{
		Use: "delete NAME|ID... | -f FILE...", Short: "Delete policies", Args: cli.Args(0, -1),
		Long: `Delete policies, by name or id, or those that files name by their slugs; what the files
say of them otherwise does not count.`,
		Example: `  edict policy delete web db
  edict policy delete -f policies/ --dry-run`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) > 0) == (len(files) > 0) {
				return cli.Usage(cmd, "name policies, or give files with -f")
			}
			c, project, err := a.plane(cmd)
			if err != nil {
				return err
			}
			if len(files) > 0 {
				return a.deleteFiles(cmd.Context(), c, project, files, dry)
			}
			return each(args, func(name string) error {
				p, err := findPolicy(cmd.Context(), c, project, name)
				if err != nil {
					return err
				}
				return a.policyDelete(cmd.Context(), c, project, p.ID, p.Slug, dry)
			})
		},
	}
	a.clientFlags(cmd)
	a.projectFlag(cmd)
	filesFlagMaybe(cmd, &files)
	dryRunFlag(cmd, &dry)
	return cmd
}

// deleteFiles deletes the policies that files name. Those that are not there are an
// error, and the others go.
func (a policyCommands) deleteFiles(ctx context.Context, c *client.Client, project uuid.UUID, files []string, dry bool) error {
	drafts, err := a.drafts(files)
	if err != nil {
		return err
	}
	ids, err := policyIDs(ctx, c, project)
	if err != nil {
		return err
	}
	slugs := make([]string, len(drafts))
	for i, d := range drafts {
		slugs[i] = d.Slug
	}
	return each(slugs, func(slug string) error {
		id, exists := ids[slug]
		if !exists {
			return noPolicy(slug, project)
		}
		return a.policyDelete(ctx, c, project, id, slug, dry)
	})
}

func (a policyCommands) policyDelete(ctx context.Context, c *client.Client, project, id uuid.UUID, slug string, dry bool) error {
	if err := c.Policies.Delete(ctx, project, id, dryCalls(dry)...); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.stdout, "policy/%s deleted%s\n", slug, dryNote(dry))
	return err
}
