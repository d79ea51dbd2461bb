package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/cmd/internal/cli"
)

// uiCommand makes the link that opens the console.
func (a *app) uiCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "ui", Short: "Print a link that opens the console in a browser", Args: cli.Args(0, 0),
		Long: `Print a link that opens the console of a plane in a browser. Where access is
configured, the link works once, within a minute, and the browser may then do what the
credentials of this command may, for 12 hours or until these are over. The browser cannot
read them.`,
		Example: `  edict ui
  edict ui --server https://plane.example:8080 --token-file ana.token`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client(cmd)
			if err != nil {
				return err
			}
			link, err := c.SessionLink(cmd.Context())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(a.stdout, strings.TrimRight(withScheme(a.server), "/")+link.Path)
			return err
		},
	}
	a.clientFlags(cmd)
	return cmd
}
