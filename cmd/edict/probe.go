package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/cmd/internal/cli"
)

// probeCommand asks what a kubelet or a watchdog asks, from inside: the API is
// on loopback, where nobody else's HTTP probe arrives, and an image without a
// shell has no other program to ask with.
func (a *app) probeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "probe livez|readyz",
		Short: "Ask a worker whether it lives, or whether it is ready",
		Long: `Ask a worker whether it lives (livez: the process answers) or is ready (readyz:
it can serve). Exit code 0 means yes; 7 means no, with the reason on stderr.
It asks once and does not wait, as a probe in a container or a unit wants.`,
		Example:   "  edict probe readyz",
		ValidArgs: []string{"livez", "readyz"},
		Args:      cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client(cmd)
			if err != nil {
				return err
			}
			if err := probe(cmd, c, args[0]); err != nil {
				return err
			}
			_, err = fmt.Fprintln(a.stdout, "ok")
			return err
		},
	}
	a.addressFlags(cmd)
	return cmd
}

func probe(cmd *cobra.Command, c *client.Client, what string) error {
	switch what {
	case "livez":
		return c.Live(cmd.Context())
	case "readyz":
		_, err := c.Ready(cmd.Context())
		return err
	}
	return cli.Usage(cmd, "probe %q: want livez or readyz", what)
}
