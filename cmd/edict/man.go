package main

import (
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/edictdev/edict/cmd/internal/cli"
)

func (a *app) manCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "man --to DIR", Short: "Write the manual pages of all commands", Args: cli.Args(0, 0),
		Long: `Write the manual pages of all commands, for man, into a directory: section 1, a page for
each command.`,
		Example: `  edict man --to /usr/local/share/man/man1 && man edict-policy-apply`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.Required(cmd, "to"); err != nil {
				return err
			}
			if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // for everybody to read
				return err
			}
			b := cli.ReadBuild()
			made := time.Unix(0, 0).UTC() // the same pages of the same source
			if t, err := time.Parse(time.RFC3339, b.Date); err == nil {
				made = t
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			return doc.GenManTree(root, &doc.GenManHeader{Title: "EDICT", Section: "1", Source: "edict " + b.Version, Date: &made}, dir)
		},
	}
	cmd.Flags().StringVar(&dir, "to", "", "`directory` to write to; it is made")
	return cmd
}
