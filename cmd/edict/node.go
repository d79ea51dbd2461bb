package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/policy"
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
			apply := applyNode
			if dry {
				apply = wouldApplyNode
			}
			outcome, lost, err := apply(cmd.Context(), c, project, args[0], facts)
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
	cmd.Flags().StringArrayVarP(&labels, "label", "l", nil, "label, key=value; may be repeated")
	cmd.Flags().StringArrayVarP(&addresses, "address", "a", nil, "IP address; may be repeated")
	dryRunFlag(cmd, &dry)
	return cmd
}

// applyNode states a node's facts, and says what that changed and what the node lost.
func applyNode(ctx context.Context, c *client.Client, project uuid.UUID, id string, facts resource.Facts) (outcome string, lost []string, err error) {
	before, err := c.Nodes.Get(ctx, project, id)
	var p *client.Problem
	if err != nil && !(errors.As(err, &p) && p.Status == http.StatusNotFound) {
		return "", nil, err
	}
	after, created, err := c.Nodes.Put(ctx, project, id, facts)
	switch {
	case err != nil:
		return "", nil, err
	case created:
		return "created", nil, nil
	case after.Version == before.Version:
		return "unchanged", nil, nil
	}
	return "configured", lostFacts(before, after.Labels, len(after.Addresses)), nil
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

// wouldApplyNode says what applyNode would do, and does nothing.
func wouldApplyNode(ctx context.Context, c *client.Client, project uuid.UUID, id string, facts resource.Facts) (outcome string, lost []string, err error) {
	wanted, err := factsText(id, facts)
	if err != nil {
		return "", nil, err
	}
	before, err := c.Nodes.Get(ctx, project, id)
	switch {
	case err != nil && codeOf(err) == cli.NotFound:
		return "created", nil, nil
	case err != nil:
		return "", nil, err
	}
	if now, err := factsText(id, resource.Facts{Labels: before.Labels, Addresses: before.Addresses}); err == nil && now == wanted {
		return "unchanged", nil, nil
	}
	return "configured", lostFacts(before, facts.Labels, len(facts.Addresses)), nil
}

// factsText is what a node's facts are, however they are written.
func factsText(id string, facts resource.Facts) (string, error) {
	if facts.Labels == nil {
		facts.Labels = map[string]string{}
	}
	if facts.Addresses == nil {
		facts.Addresses = []string{}
	}
	line, err := json.Marshal(struct {
		ID string `json:"id"`
		resource.Facts
	}{id, facts})
	if err != nil {
		return "", err
	}
	_, read, err := policy.DecodeNodeLine(line)
	if err != nil {
		return "", err
	}
	return string(policy.AppendAddresses(policy.AppendLabels(nil, read.Labels), read.Addresses)), nil
}

func (a nodeCommands) nodeDeleteCommand() *cobra.Command {
	var selector string
	var dry bool
	cmd := &cobra.Command{
		Use: "delete ID... | -l SELECTOR", Short: "Remove nodes", Args: cli.Args(0, -1),
		Example: `  edict node delete web-1 web-2
  edict node delete -l env==dev --dry-run`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) > 0) == (selector != "") {
				return cli.Usage(cmd, "name nodes, or those of a selector with -l")
			}
			c, project, err := a.plane(cmd)
			if err != nil {
				return err
			}
			if selector != "" {
				for n, err := range c.Nodes.All(cmd.Context(), project, selectorOf(selector)) {
					if err != nil {
						return err
					}
					args = append(args, n.ID)
				}
			}
			return each(args, func(id string) error { return a.nodeDelete(cmd.Context(), c, project, id, dry) })
		},
	}
	a.clientFlags(cmd)
	a.projectFlag(cmd)
	selectorFlag(cmd, &selector)
	dryRunFlag(cmd, &dry)
	return cmd
}

// nodeDelete removes a node; with dry it looks whether there is one.
func (a nodeCommands) nodeDelete(ctx context.Context, c *client.Client, project uuid.UUID, id string, dry bool) (err error) {
	if dry {
		_, err = c.Nodes.Get(ctx, project, id)
	} else {
		err = c.Nodes.Delete(ctx, project, id)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "node/%s deleted%s\n", id, dryNote(dry))
	return err
}

// dryRunFlag gives a command --dry-run.
func dryRunFlag(cmd *cobra.Command, dry *bool) {
	cmd.Flags().BoolVar(dry, "dry-run", false, "say what would be done, and do nothing")
}

// dryNote is what stands behind what was not done.
func dryNote(dry bool) string {
	if dry {
		return " (dry run)"
	}
	return ""
}
