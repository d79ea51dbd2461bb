package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/resource"
)

func (a *app) policyGetCommand() *cobra.Command {
	return a.policyClient(&cobra.Command{
		Use: "get NAME|ID", Short: "Show a policy and its rules", Args: args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, project, err := a.plane(cmd)
			if err != nil {
				return err
			}
			p, err := findPolicy(cmd.Context(), c, project, args[0])
			if err != nil {
				return err
			}
			return a.print(p, func(w io.Writer) { writePolicy(w, p) })
		},
	})
}

func writePolicy(w io.Writer, p resource.Policy) {
	fmt.Fprintf(w, "Slug:         %s\n", p.Slug)
	if p.DisplayName != "" {
		fmt.Fprintf(w, "Name:         %s\n", p.DisplayName)
	}
	fmt.Fprintf(w, "ID:           %s\nRevision:     %s\nUpdated:      %s\n", p.ID, p.HeadRevisionID, stamp(p.UpdatedAt))
	if p.Head == nil {
		return
	}
	fmt.Fprintf(w, "By:           %s\nSource:       %s\nDestination:  %s\n\n", p.Head.CreatedBy, p.Head.Selector.Source, p.Head.Selector.Destination)
	writeRules(w, p.Head.Rules)
}

func writeRules(w io.Writer, rules []resource.Rule) {
	rows := make([][]string, len(rules))
	for i, r := range rules {
		rows[i] = ruleCells(r)
	}
	columns(w, []string{"action", "protocol", "ports", "source", "destination"}, rows)
}

func ruleCells(r resource.Rule) []string {
	ports := "-"
	if r.Ports != nil {
		ports = fmt.Sprint(r.Ports.From)
		if r.Ports.To != r.Ports.From {
			ports += fmt.Sprintf("-%d", r.Ports.To)
		}
	}
	return []string{r.Action, r.Protocol, ports, r.SourceCIDR, r.DestinationCIDR}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func (a *app) policyListCommand() *cobra.Command {
	return a.policyClient(&cobra.Command{
		Use: "list", Short: "List the policies of a project", Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, project, err := a.plane(cmd)
			if err != nil {
				return err
			}
			all := []resource.Policy{}
			for p, err := range c.AllPolicies(cmd.Context(), project) {
				if err != nil {
					return err
				}
				all = append(all, p)
			}
			return a.print(all, func(w io.Writer) {
				rows := make([][]string, len(all))
				for i, p := range all {
					rows[i] = []string{p.Slug, p.DisplayName, stamp(p.UpdatedAt), p.HeadRevisionID.String(), p.ID.String()}
				}
				columns(w, []string{"slug", "name", "updated", "revision", "id"}, rows)
			})
		},
	})
}

func (a *app) policyRevisionsCommand() *cobra.Command {
	return a.policyClient(&cobra.Command{
		Use: "revisions NAME|ID", Short: "List what a policy has said, newest first", Args: args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, project, err := a.plane(cmd)
			if err != nil {
				return err
			}
			p, err := findPolicy(cmd.Context(), c, project, args[0])
			if err != nil {
				return err
			}
			all := []resource.Revision{}
			for r, err := range c.AllRevisions(cmd.Context(), project, p.ID) {
				if err != nil {
					return err
				}
				all = append(all, r)
			}
			return a.print(all, func(w io.Writer) {
				rows := make([][]string, len(all))
				for i, r := range all {
					rows[i] = []string{r.ID.String(), stamp(r.CreatedAt), r.CreatedBy, fmt.Sprint(len(r.Rules)), r.Selector.Source, r.Selector.Destination}
				}
				columns(w, []string{"revision", "created", "by", "rules", "source", "destination"}, rows)
			})
		},
	})
}
