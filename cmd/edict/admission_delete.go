package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/cmd/internal/cli"
)

func (a admissionCommands) admissionDeleteCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete NAME|ID...", Short: "Delete admission policies", Args: cli.Args(1, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client(cmd)
			if err != nil {
				return err
			}
			return each(args, func(name string) error {
				p, err := findAdmission(cmd.Context(), c, name)
				if err != nil {
					return err
				}
				if err := c.Admission.Delete(cmd.Context(), p.ID); err != nil {
					return err
				}
				_, err = fmt.Fprintf(a.stdout, "admission/%s deleted\n", p.Name)
				return err
			})
		},
	}
	a.clientFlags(cmd)
	return cmd
}
