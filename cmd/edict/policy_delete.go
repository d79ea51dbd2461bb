package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/cmd/internal/cli"
)

func (a policyCommands) policyDeleteCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete NAME|ID...", Short: "Delete policies", Args: cli.Args(1, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, project, err := a.plane(cmd)
			if err != nil {
				return err
			}
			return each(args, func(name string) error {
				p, err := findPolicy(cmd.Context(), c, project, name)
				if err != nil {
					return err
				}
				if err := c.Policies.Delete(cmd.Context(), project, p.ID); err != nil {
					return err
				}
				_, err = fmt.Fprintf(a.stdout, "policy/%s deleted\n", p.Slug)
				return err
			})
		},
	}
	a.clientFlags(cmd)
	a.projectFlag(cmd)
	return cmd
}
