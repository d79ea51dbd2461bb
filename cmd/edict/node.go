package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

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
		a.nodeApplyCommand(), a.nodeImportCommand(), a.nodeListCommand(), a.nodeCountCommand(), a.nodeGetCommand(), a.nodeDescribeCommand(), a.nodeLabelCommand(),
		a.nodeDeleteCommand(), a.nodeStateCommand(), a.nodeDiffCommand(), a.nodePoliciesCommand(), a.nodeWatchCommand())
}

func (a nodeCommands) nodeApplyCommand() *cobra.Command {
	var labels, addresses []string
	var dry bool
	cmd := &cobra.Command{
		Use:   "apply ID",
		Short: "Register a node, or give it other facts",
		Long: `Register a node, or replace its facts: labels and addresses that are not given are
removed. To change single labels, use 'edict node label'.`,
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
			outcome, lost, err := applyNode(cmd.Context(), c, project, args[0], facts, dryCalls(dry)...)
			if err != nil {
				return err
			}
			if len(lost) > 0 {
				fmt.Fprintf(a.stderr, "node/%s loses what was not given: %s; 'edict node label' changes labels alone\n", args[0], strings.Join(lost, ", "))
			}
			_, err = fmt.Fprintf(a.stdout, "node/%s %s%s\n", args[0], outcome, dryNote(dry))
			return err
		},
	}
	a.clientFlags(cmd)
	a.projectFlag(cmd)
	cmd.Flags().StringArrayVarP(&labels, "label", "l", nil, "label, key=value; several with commas between them, or repeated")
	cmd.Flags().StringArrayVarP(&addresses, "address", "a", nil, "IP address; may be repeated")
	dryRunFlag(cmd, &dry)
	return cmd
}

// applyNode states a node's facts, and says what that changed and what the node lost.
func applyNode(ctx context.Context, c *client.Client, project uuid.UUID, id string, facts resource.Facts, calls ...client.Call) (outcome string, lost []string, err error) {
	before, err := c.Nodes.Get(ctx, project, id)
	unknown := err != nil && codeOf(err) == cli.NotFound
	if err != nil && !unknown {
		return "", nil, err
	}
	after, created, err := c.Nodes.Put(ctx, project, id, facts, calls...)
	switch {
	case err != nil:
		return "", nil, err
	case created, unknown:
		return "created", nil, nil
	case after.Version == before.Version:
		return "unchanged", nil, nil
	}
	return "configured", lostFacts(before, facts.Labels, len(facts.Addresses)), nil
}

// lostFacts are the labels that a node had, and the addresses if it has none left.
func lostFacts(before resource.Node, labels map[string]string, addresses int) (lost []string) {
	for _, key := range slices.Sorted(maps.Keys(before.Labels)) {
		if _, stays := labels[key]; !stays {
			lost = append(lost, "label "+key)
		}
	}
	if len(before.Addresses) > 0 && addresses == 0 {
		lost = append(lost, "its addresses")
	}
	return lost
}
