package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/cmd/internal/cli"
)

func versionCommand(stdout io.Writer) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Say which retectl this is: release, commit and its date", Args: cli.Args(0, 0),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(stdout, "retectl", cli.ReadBuild())
			return err
		},
	}
}
