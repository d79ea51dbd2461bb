package main

import (
	"cmp"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/cmd/internal/cli"
)

func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "version", Short: "Say which edict this is: release, commit and its date", Args: cli.Args(0, 0),
		RunE: func(*cobra.Command, []string) error {
			b := cli.ReadBuild()
			return a.print(b, func(w io.Writer) { fmt.Fprintln(w, "edict", b) })
		},
	}
	a.outputFlag(cmd)
	return cmd
}

// version is the release, or the commit that it was built from.
func version() string {
	b := cli.ReadBuild()
	if b.Version != "devel" {
		return b.Version
	}
	return cmp.Or(b.Commit, b.Version)
}
