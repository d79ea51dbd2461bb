package main

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
)

func (a nodeCommands) nodeLabelCommand() *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use: "label ID KEY=VALUE... | KEY-...", Short: "Give a node labels, or take labels from it",
		Long: `Give a node labels, or take labels from it; what is not named stays, its addresses
too. If somebody else changes the node meanwhile, it is done again upon what they
wrote.`,
		Example: `  edict node label web-1 env=prod canary-`,
		Args:    cli.Args(2, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			change, err := readLabelChange(cmd, args[1:])
			if err != nil {
				return err
			}
			c, project, err := a.plane(cmd)
			if err != nil {
				return err
			}
			outcome, err := changeLabels(cmd, c, project, args[0], change, dryCalls(dry)...)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.stdout, "node/%s %s%s\n", args[0], outcome, dryNote(dry))
			return err
		},
	}
	a.clientFlags(cmd)
	a.projectFlag(cmd)
	dryRunFlag(cmd, &dry)
	return cmd
}

// labelChange is what becomes of labels, by key; nil: it goes.
type labelChange map[string]*string

func readLabelChange(cmd *cobra.Command, args []string) (labelChange, error) {
	change := labelChange{}
	for _, arg := range args {
		key, value, sets := strings.Cut(arg, "=")
		if !sets {
			var takes bool
			if key, takes = strings.CutSuffix(arg, "-"); !takes {
				return nil, cli.Usage(cmd, "%.80q: want KEY=VALUE, or KEY- to take a label away", arg)
			}
		}
		if _, twice := change[key]; twice {
			return nil, cli.Usage(cmd, "label %.80q is named twice", key)
		}
		change[key] = nil
		if sets {
			change[key] = &value
		}
	}
	return change, nil
}

// of are the labels with the change.
func (l labelChange) of(labels map[string]string) map[string]string {
	labels = maps.Clone(labels)
	if labels == nil {
		labels = map[string]string{}
	}
	for key, value := range l {
		if value == nil {
			delete(labels, key)
		} else {
			labels[key] = *value
		}
	}
	return labels
}

// changeLabels changes the node that was read and no other.
func changeLabels(cmd *cobra.Command, c *client.Client, project uuid.UUID, id string, change labelChange, calls ...client.Call) (outcome string, err error) {
	for range changeTries {
		before, err := c.Nodes.Get(cmd.Context(), project, id)
		if err != nil {
			return "", err
		}
		labels := change.of(before.Labels)
		if maps.Equal(labels, before.Labels) {
			return "unchanged", nil
		}
		calls := append(calls, client.IfMatch(client.VersionTag(before.Version)))
		_, _, err = c.Nodes.Put(cmd.Context(), project, id, resource.Facts{Labels: labels, Addresses: before.Addresses}, calls...)
		var p *client.Problem
		if !errors.As(err, &p) || p.Status != http.StatusPreconditionFailed {
			return "labeled", err
		}
	}
	return "", cli.Failed(cli.Conflict, "node %s was changed by others each time; try again", id)
}
