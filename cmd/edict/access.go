package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/policy"
)

// accessCommands say who may do what, and read who did.
type accessCommands struct{ *app }

func (a accessCommands) accessCommand() *cobra.Command {
	c := group("access", "Say who may do what",
		group("token", "Make, list and revoke bearer tokens",
			a.tokenCreateCommand(), a.tokenListCommand(), a.tokenRevokeCommand()),
		a.bootstrapCommand(),
		a.grantCommand(), a.revokeCommand(), a.accessListCommand(), a.accessRemoveCommand(), a.selfCommand(), a.canCommand())
	c.Long = `Say who may do what: principals, what proves them, and their relations.

A relation is written object#name: plane#admin, plane#read,
project:<uuid>#operator, project:<uuid>#manage|edit|read for all policies of a
project, policy:<uuid>#manage|edit|read for one, tenant:<id>#admin for the admission
policies of a tenant, node:<project>/<id>#agent, where node:<id>#agent is a node of
--project. To write a policy takes manage of it and
operator of its project.`
	return c
}

// accessClient gives a command the flags of those who administer access.
func (a accessCommands) accessClient(cmd *cobra.Command) *cobra.Command {
	a.clientFlags(cmd)
	a.outputFlag(cmd)
	return cmd
}

func (a accessCommands) grantCommand() *cobra.Command {
	var dry bool
	cmd := a.accessClient(&cobra.Command{
		Use: "grant PRINCIPAL RELATION...", Short: "Give a principal relations", Args: cli.Args(2, -1),
		Example: `  edict access grant ana project:00000000-0000-4000-8000-000000000000#operator
  edict access grant web-1 node:web-1#agent`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client(cmd)
			if err != nil {
				return err
			}
			var p resource.Principal
			for _, text := range args[1:] {
				if r, fault := policy.ParseRelation(text); fault == nil { // else the plane says what is wrong
					if r, err = a.whole(cmd, r); err != nil {
						return err
					}
					text = r.String()
				}
				if p, err = c.Principals.WriteRelation(cmd.Context(), args[0], text, dryCalls(dry)...); err != nil {
					return err
				}
			}
			if dry {
				return a.tellDry("principal/"+args[0], "granted "+strings.Join(args[1:], " "))
			}
			if p.Kind == "" {
				fmt.Fprintf(a.stderr, "edict: no event says what proves %s; unless the --access file of the plane does, make a token with: edict access token create %s\n", p.ID, p.ID)
			}
			return a.print(p, func(w io.Writer) { principalListing.write(w, []resource.Principal{p}, false) })
		},
	})
	a.projectFlag(cmd)
	dryRunFlag(cmd, &dry)
	return cmd
}

func (a accessCommands) revokeCommand() *cobra.Command {
	var dry bool
	cmd := a.accessClient(&cobra.Command{
		Use: "revoke PRINCIPAL RELATION...", Short: "Take relations back", Args: cli.Args(2, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client(cmd)
			if err != nil {
				return err
			}
			had, err := c.Principals.Get(cmd.Context(), args[0])
			var none *client.Problem
			if err != nil && (!errors.As(err, &none) || none.Code != api.CodePrincipalNotFound) {
				return err
			}
			for _, r := range args[1:] {
				if err := c.Principals.RemoveRelation(cmd.Context(), args[0], r, dryCalls(dry)...); err != nil {
					return err
				}
				if !hasRelation(had, r) {
					fmt.Fprintf(a.stderr, "edict: %s does not have %s, so nothing was taken\n", args[0], r)
				}
			}
			if dry {
				return a.tellDry("principal/"+args[0], "revoked "+strings.Join(args[1:], " "))
			}
			return nil
		},
	})
	dryRunFlag(cmd, &dry)
	return cmd
}

// hasRelation reports whether a principal has a relation. One to a node that names no project
// is one to the node of any.
func hasRelation(p resource.Principal, text string) bool {
	asked, err := policy.ParseRelation(text)
	return err == nil && slices.ContainsFunc(p.Relations, func(g resource.Grant) bool {
		r, err := policy.ParseRelation(g.Relation)
		if !asked.Whole() {
			r.ID = asked.ID
		}
		return err == nil && r == asked
	})
}

func (a accessCommands) accessListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list [PRINCIPAL]", Short: "List principals and their relations", Args: cli.Args(0, 1),
		Long: `List the principals of the log, and their relations. Those of a file that a plane was
started with (serve --access) are in that file alone.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client(cmd)
			if err != nil {
				return err
			}
			var all []resource.Principal
			if len(args) == 1 {
				one, err := c.Principals.Get(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				all = append(all, one)
			} else if all, err = collect(c.Principals.All(cmd.Context())); err != nil {
				return err
			}
			return printList(&a.console, principalListing, all)
		},
	}
	a.clientFlags(cmd)
	a.listFlags(cmd, principalListing.headers)
	return cmd
}

func (a accessCommands) accessRemoveCommand() *cobra.Command {
	var dry bool
	cmd := a.accessClient(&cobra.Command{
		Use: "remove PRINCIPAL", Short: "Remove a principal, its credentials and its relations", Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client(cmd)
			if err != nil {
				return err
			}
			if err := c.Principals.Delete(cmd.Context(), args[0], dryCalls(dry)...); err != nil || !dry {
				return err
			}
			return a.tellDry("principal/"+args[0], "removed")
		},
	})
	dryRunFlag(cmd, &dry)
	return cmd
}

func (a accessCommands) selfCommand() *cobra.Command {
	return a.accessClient(&cobra.Command{
		Use: "self", Short: "Say whom the plane takes you for", Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client(cmd)
			if err != nil {
				return err
			}
			s, err := c.Self(cmd.Context())
			if err != nil {
				return err
			}
			return a.print(s, func(w io.Writer) {
				columns(w, []string{"id", "kind", "relations"}, [][]string{{s.ID, s.Kind, strings.Join(s.Relations, ",")}})
			})
		},
	})
}

var principalListing = listing[resource.Principal]{
	kind: "principal", name: func(p resource.Principal) string { return p.ID },
	columns: []column[resource.Principal]{
		{"id", func(p resource.Principal) string { return p.ID }, false},
		{"kind", func(p resource.Principal) string { return p.Kind }, false},
		{"tokens", func(p resource.Principal) string { return fmt.Sprint(len(p.Tokens)) }, false},
		{"relations", func(p resource.Principal) string {
			relations := make([]string, len(p.Relations))
			for i, g := range p.Relations {
				relations[i] = g.Relation
			}
			return strings.Join(relations, ",")
		}, false},
	},
}

// changeTries bounds how often a change is made again over somebody else's.
const changeTries = 5

// changePrincipal makes of a principal what change makes of it; a new one is of
// the kind.
func changePrincipal(cmd *cobra.Command, c *client.Client, id, kind string, change func(*resource.PrincipalDocument) error, calls ...client.Call) (resource.Principal, error) {
	for try := 1; ; try++ {
		p, err := c.Principals.Get(cmd.Context(), id)
		var problem *client.Problem
		if errors.As(err, &problem) && problem.Code == "principal_not_found" {
			p, err = resource.Principal{Kind: kind}, nil
		}
		if err != nil {
			return p, err
		}
		doc := resource.PrincipalDocument{Kind: p.Kind, DisplayName: p.DisplayName, Tokens: p.Tokens, SPIFFE: p.SPIFFE, OIDC: p.OIDC, Bootstrap: p.Bootstrap, Registration: p.Registration}
		version := p.Version
		if doc.Kind == "" { // named by relations alone
			doc.Kind, version = kind, 0
		}
		if err := change(&doc); err != nil {
			return p, err
		}
		p, err = c.Principals.Put(cmd.Context(), id, doc, version, calls...)
		if errors.As(err, &problem) && problem.Code == "precondition_failed" && try < changeTries {
			continue
		}
		return p, err
	}
}
