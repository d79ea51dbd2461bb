package main

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/keyring"
)

// keyCommands read and rotate the plane's keys.
type keyCommands struct{ *app }

func (a keyCommands) keyCommand() *cobra.Command {
	return group("key", "List and rotate the keys that the plane signs with", a.keyListCommand(), a.keyRotateCommand())
}

func (a keyCommands) keyListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List the plane's public keys, current and still trusted", Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client(cmd)
			if err != nil {
				return err
			}
			keys, err := c.Keys.List(cmd.Context())
			if err != nil {
				return err
			}
			return a.printKeys(keys)
		},
	}
	a.clientFlags(cmd)
	a.outputFlag(cmd)
	return cmd
}

func (a keyCommands) keyRotateCommand() *cobra.Command {
	var transition time.Duration
	var dry bool
	cmd := &cobra.Command{
		Use: "rotate", Short: "Replace the key that the plane signs with", Args: cli.Args(0, 0),
		Long: `Replace the key that the plane signs with. The new key is announced to nodes under
the one before, and they accept both until the transition ends; a node that is away for
longer must be given the plane's keys again. A second rotation must wait until then.

A plane that made its own key makes the new one, too, below --data. If --signing-key
was given, give every worker the new key with --next-signing-key first: a rotation
that a worker could not follow is refused, which --dry-run does not foresee.`,
		Example: `  edict key rotate --transition 48h
  openssl genpkey -algorithm ed25519 -out next.pem   # then, for each worker: --next-signing-key next.pem`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client(cmd)
			if err != nil {
				return err
			}
			if dry {
				return a.rotateDry(cmd.Context(), c, transition)
			}
			keys, err := c.Keys.Rotate(cmd.Context(), transition)
			if err != nil {
				return err
			}
			return a.printKeys(keys)
		},
	}
	a.clientFlags(cmd)
	a.outputFlag(cmd)
	dryRunFlag(cmd, &dry)
	cmd.Flags().DurationVar(&transition, "transition", api.DefaultTransition, "how long nodes accept the key before, 1m to 8760h")
	return cmd
}

// rotateDry says what would become of the plane's keys.
func (a keyCommands) rotateDry(ctx context.Context, c *client.Client, transition time.Duration) error {
	keys, err := c.Keys.List(ctx)
	if err != nil {
		return err
	}
	if transition < keyring.LeastTransition || transition > keyring.MostTransition {
		return cli.Failed(cli.Differs, "a transition of %v: want %v to %v", transition, keyring.LeastTransition, keyring.MostTransition)
	}
	now := time.Now()
	for _, k := range keys {
		if k.NotAfter != nil && k.NotAfter.After(now) {
			return cli.Failed(cli.Conflict, "a rotation is under way: key %s is accepted until %s", k.KeyID, stamp(*k.NotAfter))
		}
	}
	for _, k := range keys {
		if k.NotAfter == nil {
			return a.tellDry("key/"+k.KeyID, "replaced, and accepted until "+stamp(now.Add(transition)))
		}
	}
	return nil
}

// printKeys prints JSON that watch takes as a file of trusted keys.
func (a keyCommands) printKeys(keys []resource.Key) error {
	return a.print(resource.Items[resource.Key]{Items: keys}, func(w io.Writer) {
		rows := make([][]string, len(keys))
		for i, k := range keys {
			until := "-"
			if k.NotAfter != nil {
				until = stamp(*k.NotAfter)
			}
			rows[i] = []string{k.KeyID, k.Status, until, k.PublicKey}
		}
		columns(w, []string{"key", "status", "not after", "public key"}, rows)
	})
}
