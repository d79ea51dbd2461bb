package main

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
)

// Completion asks the plane for so many names, and waits for so long.
const (
	mostCompleted    = 100
	completePatience = 2 * time.Second
)

// namesOf are names of one kind of thing that begin so, if the plane can be asked for those.
type namesOf func(ctx context.Context, c *client.Client, project uuid.UUID, begin string) ([]string, error)

// completed completes the arguments of a command, the first or every one, with names that the plane knows.
// Where it does not answer, there is nothing to complete.
func (a *connection) completed(cmd *cobra.Command, every bool, names namesOf) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 && !every {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.asked(names)(cmd, args, begin)
	}
}

// asked completes a word with names that the plane knows.
func (a *connection) asked(names namesOf) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
		const nothing = cobra.ShellCompDirectiveNoFileComp
		if cmd.PreRunE(cmd, args) != nil {
			return nil, nothing
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completePatience)
		defer cancel()
		c, err := a.client(cmd)
		if err != nil {
			return nil, nothing
		}
		project, _ := uuid.Parse(a.project) // of commands about no project there is none
		list, _ := names(ctx, c, project, begin)
		return list, nothing
	}
}

func policyNames(ctx context.Context, c *client.Client, project uuid.UUID, begin string) (names []string, err error) {
	page, err := c.Policies.List(ctx, project, client.Page{Limit: mostCompleted, Prefix: begin})
	for _, p := range page.Items {
		names = append(names, p.Slug)
	}
	return names, err
}

func nodeNames(ctx context.Context, c *client.Client, project uuid.UUID, begin string) (names []string, err error) {
	page, err := c.Nodes.List(ctx, project, "", client.Page{Limit: mostCompleted, Prefix: begin})
	for _, n := range page.Items {
		names = append(names, n.ID)
	}
	return names, err
}

func principalNames(ctx context.Context, c *client.Client, _ uuid.UUID, _ string) (names []string, err error) {
	page, err := c.Principals.List(ctx, client.Page{Limit: mostCompleted})
	for _, p := range page.Items {
		names = append(names, p.ID)
	}
	return names, err
}

func admissionNames(ctx context.Context, c *client.Client, _ uuid.UUID, _ string) (names []string, err error) {
	page, err := c.Admission.List(ctx, nil, client.Page{Limit: mostCompleted})
	for _, p := range page.Items {
		names = append(names, p.Name)
	}
	return names, err
}

func workerNames(ctx context.Context, c *client.Client, _ uuid.UUID, _ string) (names []string, err error) {
	s, err := c.Status(ctx, false)
	for _, w := range s.Workers {
		names = append(names, w.Name)
	}
	return names, err
}

func projectIDs(ctx context.Context, c *client.Client, _ uuid.UUID, _ string) (ids []string, err error) {
	page, err := c.Projects.List(ctx, client.Page{Limit: mostCompleted})
	for _, p := range page.Items {
		ids = append(ids, p.ID)
	}
	return ids, err
}

// waitedNames are the names of what edict wait waits for, with its kind before.
func waitedNames(ctx context.Context, c *client.Client, project uuid.UUID, begin string) (names []string, err error) {
	kind, begin, _ := strings.Cut(begin, "/")
	switch kind {
	case "policy":
		names, err = policyNames(ctx, c, project, begin)
	case "node":
		names, err = nodeNames(ctx, c, project, begin)
	}
	for i, name := range names {
		names[i] = kind + "/" + name
	}
	return names, err
}

// completeNames gives the commands of a group their names, by what they are called.
func (a *app) completeNames(root *cobra.Command) {
	for _, x := range []struct {
		group    string
		commands []string
		every    bool
		names    namesOf
	}{
		{"policy", []string{"get", "describe", "edit", "revisions", "rollout", "promote", "next-wave", "abort", "diff"}, false, policyNames},
		{"policy", []string{"delete"}, true, policyNames},
		{"node", []string{"get", "describe", "label", "state", "diff", "policies", "watch", "apply"}, false, nodeNames},
		{"node", []string{"delete"}, true, nodeNames},
		{"datapath", []string{"show", "explain", "lookup"}, false, nodeNames},
		{"release", []string{"get"}, false, nodeNames},
		{"admission", []string{"get"}, false, admissionNames},
		{"admission", []string{"delete"}, true, admissionNames},
		{"access", []string{"list", "grant", "revoke", "remove"}, false, principalNames},
		{"worker", []string{"describe"}, false, workerNames},
		{"project", []string{"describe", "archive", "restore"}, false, projectIDs},
	} {
		for _, name := range x.commands {
			if cmd, _, err := root.Find([]string{x.group, name}); err == nil && cmd.Name() == name {
				a.completed(cmd, x.every, x.names)
			}
		}
	}
	for _, x := range []struct {
		command, flag string
		complete      cobra.CompletionFunc
	}{
		{"datapath explain", "from", a.asked(nodeNames)},
		{"datapath explain", "to", a.asked(nodeNames)},
		{"datapath lookup", "from", a.asked(nodeNames)},
		{"datapath lookup", "to", a.asked(nodeNames)},
		{"node list", "state", oneOf("applied", "lagging", "refused", "silent")},
		{"wait", "for", oneOf(waitApplied, waitDeleted)},
		{"demo", "story", oneOf("tour", "waves")},
	} {
		if cmd, _, err := root.Find(strings.Fields(x.command)); err == nil {
			_ = cmd.RegisterFlagCompletionFunc(x.flag, x.complete) // without the flag there is nothing to complete
		}
	}
}

// oneOf completes a word that is one of these.
func oneOf(list ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp)
}
