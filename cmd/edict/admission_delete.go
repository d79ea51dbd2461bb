package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/cmd/internal/cli"
)

func (a admissionCommands) admissionDeleteCommand() *cobra.Command {
	var files []string
	var dry bool
	cmd := &cobra.Command{
		Use: "delete NAME|ID... | -f FILE...", Short: "Delete admission policies", Args: cli.Args(0, -1),
		Long: `Delete admission policies, by name or id, or those that files name; what the files say of
them otherwise does not count.`,
		Example: `  edict admission delete no-telnet
  edict admission delete -f policies/ --dry-run`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) > 0) == (len(files) > 0) {
				return cli.Usage(cmd, "name admission policies, or give files with -f")
			}
			c, err := a.client(cmd)
			if err != nil {
				return err
			}
			if len(files) > 0 {
				drafts, err := a.admissionDrafts(cmd.Context(), files)
				if err != nil {
					return err
				}
				for _, d := range drafts {
					args = append(args, d.Name)
				}
			}
			return each(args, func(name string) error { return a.admissionDelete(cmd.Context(), c, name, dry) })
		},
	}
	a.clientFlags(cmd)
	filesFlagMaybe(cmd, &files)
	dryRunFlag(cmd, &dry)
	return cmd
}

// admissionDelete deletes a policy; with dry it looks whether there is one.
func (a admissionCommands) admissionDelete(ctx context.Context, c *client.Client, name string, dry bool) error {
	p, err := findAdmission(ctx, c, name)
	if err != nil {
		return err
	}
	if !dry {
		if err := c.Admission.Delete(ctx, p.ID); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(a.stdout, "admission/%s deleted%s\n", p.Name, dryNote(dry))
	return err
}
