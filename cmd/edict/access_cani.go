package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/policy"
)

// canNeeds is what one may ask about, by the words for it.
var canNeeds = map[string]access.Need{
	"read policy": access.ReadPolicy, "edit policy": access.EditPolicy, "manage policy": access.ManagePolicy,
	"read project": access.SeeProject, "operate project": access.OperateProject,
	"read node": access.ReadNode, "report node": access.ActAsNode,
	"read plane": access.ReadPlane, "admin plane": access.AdminPlane,
}

func (a accessCommands) canCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "can-i VERB OBJECT", Short: "Say whether you may do something", Args: cli.Args(2, 2),
		Long: `Say whether you may do something, from the relations that the plane says you have:

  read|edit|manage policy[/NAME]   of --project; without a name, any of it
  read|operate project             of --project
  read|report node[/ID]
  read|admin plane

It prints yes or no. Exit codes: 0 you may, 1 you may not.`,
		Example: `  edict access can-i manage policy
  edict access can-i report node/web-1`,
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, name, _ := strings.Cut(args[1], "/")
			need, known := canNeeds[args[0]+" "+kind]
			if !known {
				return cli.Usage(cmd, "%.80q: there is no such operation; see the list", args[0]+" "+args[1])
			}
			c, project, err := a.plane(cmd)
			if err != nil {
				return err
			}
			may, err := a.can(cmd, c, need, access.Object{Project: project}, name)
			if err != nil {
				return err
			}
			return a.answerCan(may)
		},
	}
	a.clientFlags(cmd)
	a.projectFlag(cmd)
	return cmd
}

func (a accessCommands) answerCan(may bool) error {
	if may {
		fmt.Fprintln(a.stdout, "yes")
		return nil
	}
	fmt.Fprintln(a.stdout, "no")
	return cli.Exit(cli.Differs)
}

// can decides as the plane does, for whom the plane takes the caller.
func (a accessCommands) can(cmd *cobra.Command, c *client.Client, need access.Need, o access.Object, name string) (bool, error) {
	self, err := c.Self(cmd.Context())
	if err != nil || self.Kind == "" { // access is not configured
		return err == nil, err
	}
	switch {
	case name == "":
	case need == access.ReadNode || need == access.ActAsNode:
		o.Node = policy.NodeID(name)
		if of, err := nodeOf(cmd, c, o, principalOf(self)); !of {
			return false, err
		}
	case need == access.ReadPolicy || need == access.EditPolicy || need == access.ManagePolicy:
		if o.Policy, err = policyID(cmd, c, o.Project, name); err != nil {
			return false, err
		}
	}
	return principalOf(self).Decide(need, o) == access.Allow, nil
}

// nodeOf reports whether a node may be of the project that is asked about: an operator of the
// project sees its nodes, and may do nothing with those of others.
func nodeOf(cmd *cobra.Command, c *client.Client, o access.Object, who *access.Principal) (bool, error) {
	if who.Decide(access.AdminPlane, o) == access.Allow || who.Decide(access.OperateProject, o) != access.Allow {
		return true, nil
	}
	_, err := c.Nodes.Get(cmd.Context(), o.Project, string(o.Node))
	var pr *resource.Problem
	switch {
	case !errors.As(err, &pr):
		return err == nil, err
	case pr.Code == api.CodeNodeNotFound:
		return false, nil
	case pr.Code == api.CodeRouteNotFound: // the address is of operators alone, and shows no nodes
		return true, nil
	}
	return false, err
}

// policyID is a policy's id; none where it may not be seen.
func policyID(cmd *cobra.Command, c *client.Client, project uuid.UUID, name string) (uuid.UUID, error) {
	p, err := findPolicy(cmd.Context(), c, project, name)
	if code := exitCode(err); code == cli.NotFound || code == cli.NotAllowed {
		return uuid.Nil, nil
	}
	return p.ID, err
}

func principalOf(self resource.Self) *access.Principal {
	var relations []policy.Relation
	for _, text := range self.Relations {
		if r, fault := policy.ParseRelation(text); fault == nil { // one of a newer plane says nothing here
			relations = append(relations, r)
		}
	}
	return access.NewPrincipal(policy.PrincipalID(self.ID), policy.PrincipalKind(self.Kind), relations...)
}
