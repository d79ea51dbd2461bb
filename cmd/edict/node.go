package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
)

// nodeCommands write, read and watch nodes.
type nodeCommands struct{ *app }

func (a nodeCommands) nodeCommand() *cobra.Command {
	return group("node", "Register nodes, and see what they are sent",
		a.nodeApplyCommand(), a.nodeImportCommand(), a.nodeListCommand(), a.nodeGetCommand(),
		a.nodeDeleteCommand(), a.nodeStateCommand(), a.nodePoliciesCommand(), a.nodeWatchCommand())
}

func (a nodeCommands) nodeApplyCommand() *cobra.Command {
	var labels, addresses []string
	cmd := &cobra.Command{
		Use:   "apply ID",
		Short: "Register a node, or give it other facts",
		Long: `Register a node, or replace its facts: labels and addresses that are not given are
removed.`,
		Example: `  edict node apply web-1 --label role=web --label env=prod --address 10.0.0.7`,
		Args:    cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, project, err := a.plane(cmd)
			if err != nil {
				return err
			}
			facts := resource.Facts{Addresses: addresses}
			if facts.Labels, err = labelsOf(cmd, labels); err != nil {
				return err
			}
			outcome, err := applyNode(cmd.Context(), c, project, args[0], facts)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.stdout, "node/%s %s\n", args[0], outcome)
			return err
		},
	}
	a.clientFlags(cmd)
	a.projectFlag(cmd)
	cmd.Flags().StringArrayVarP(&labels, "label", "l", nil, "label, key=value; may be repeated")
	cmd.Flags().StringArrayVarP(&addresses, "address", "a", nil, "IP address; may be repeated")
	return cmd
}

// applyNode states a node's facts and says what that changed.
func applyNode(ctx context.Context, c *client.Client, project uuid.UUID, id string, facts resource.Facts) (string, error) {
	before, err := c.Nodes.Get(ctx, project, id)
	var p *client.Problem
	if err != nil && !(errors.As(err, &p) && p.Status == http.StatusNotFound) {
		return "", err
	}
	after, created, err := c.Nodes.Put(ctx, project, id, facts)
	switch {
	case err != nil:
		return "", err
	case created:
		return "created", nil
	case after.Version == before.Version:
		return "unchanged", nil
	}
	return "configured", nil
}

func (a nodeCommands) nodeDeleteCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete ID...", Short: "Remove nodes", Args: cli.Args(1, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, project, err := a.plane(cmd)
			if err != nil {
				return err
			}
			return each(args, func(id string) error {
				if err := c.Nodes.Delete(cmd.Context(), project, id); err != nil {
					return err
				}
				_, err := fmt.Fprintf(a.stdout, "node/%s deleted\n", id)
				return err
			})
		},
	}
	a.clientFlags(cmd)
	a.projectFlag(cmd)
	return cmd
}
