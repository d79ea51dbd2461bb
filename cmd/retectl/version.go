package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/cmd/internal/cli"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Say which retectl this is: release, commit and its date", Args: cli.Args(0, 0),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.stdout, "retectl", cli.ReadBuild())
			return err
		},
	}
}
