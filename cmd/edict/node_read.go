package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
)

func (a nodeCommands) nodeListCommand() *cobra.Command {
	var f reportFlags
	cmd := &cobra.Command{
		Use: "list", Short: "List nodes, all or those a selector matches", Args: cli.Args(0, 0),
		Long: `List nodes by id. With --state, those that stand so with what is asked of them, and what
each reported last: applied, they hold what they must; lagging, they reported and are not
known to hold it; refused, they say that they could not put it in force; silent, they never
reported. With --all-projects, the nodes of all projects, likewise.`,
		Example: `  edict node list -l 'role in (web,app),env=prod'
  edict node list --all-projects --state refused,silent`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, q, err := a.asked(cmd, &f)
			if err != nil {
				return err
			}
			if f.reported() {
				all, err := collect(c.Nodes.AllReported(cmd.Context(), q))
				if err != nil {
					return err
				}
				return printList(&a.console, reportedListing, all)
			}
			all, err := collect(c.Nodes.All(cmd.Context(), q.Project, q.Selector))
			if err != nil {
				return err
			}
			return printList(&a.console, nodeListing, all)
		},
	}
	a.clientFlags(cmd)
	a.projectFlag(cmd)
	a.listFlags(cmd, func() []string {
		if f.reported() {
			return reportedListing.headers()
		}
		return nodeListing.headers()
	})
	f.add(cmd)
	cmd.Flags().StringSliceVar(&f.states, "state", nil, "only nodes that stand so: applied, lagging, refused, silent, or several behind commas")
	return cmd
}

// nodeClient gives a command the flags of those who read nodes of a project.
func (a nodeCommands) nodeClient(cmd *cobra.Command) *cobra.Command {
	a.clientFlags(cmd)
	a.projectFlag(cmd)
	a.outputFlag(cmd)
	return cmd
}

// shownNode is nodeClient for commands that show a node, and follow it with -w.
func (a nodeCommands) shownNode(cmd *cobra.Command) *cobra.Command {
	a.clientFlags(cmd)
	a.projectFlag(cmd)
	a.shownFlags(cmd)
	return cmd
}

var nodeListing = listing[resource.Node]{
	kind: "node", name: func(n resource.Node) string { return n.ID },
	columns: []column[resource.Node]{
		{"id", func(n resource.Node) string { return n.ID }, false},
		{"labels", func(n resource.Node) string { return labelText(n.Labels) }, false},
		{"addresses", func(n resource.Node) string { return strings.Join(n.Addresses, ",") }, false},
		{"version", func(n resource.Node) string { return fmt.Sprint(n.Version) }, false},
		{"project", func(n resource.Node) string { return n.ProjectID.String() }, true},
	},
}

func labelText(labels map[string]string) string {
	parts := make([]string, 0, len(labels))
	for k, v := range labels {
		parts = append(parts, k+"="+v)
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

func (a nodeCommands) nodeGetCommand() *cobra.Command {
	return a.shownNode(&cobra.Command{
		Use: "get ID", Short: "Show a node's facts", Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, project, err := a.plane(cmd)
			if err != nil {
				return err
			}
			n, err := c.Nodes.Get(cmd.Context(), project, args[0])
			if err != nil {
				return err
			}
			return a.print(n, func(w io.Writer) { nodeListing.write(w, []resource.Node{n}, false) })
		},
	})
}

func (a nodeCommands) writeState(body []byte) error {
	if a.format == formatJSON {
		_, err := fmt.Fprintf(a.stdout, "%s\n", body)
		return err
	}
	if a.format == formatYAML {
		return a.printYAML(json.RawMessage(body))
	}
	var s resource.NodeState
	if err := json.Unmarshal(body, &s); err != nil {
		return err
	}
	if s.Policy == nil {
		fmt.Fprintln(a.stderr, "no policy matches this node")
		return nil
	}
	fmt.Fprintf(a.stdout, "Fingerprint:  %s\nRules:        %d\n\n", s.Policy.Fingerprint, len(s.Policy.Rules))
	writeRules(a.stdout, s.Policy.Rules)
	if n := s.Policy.RulesOmitted; n > 0 {
		fmt.Fprintf(a.stderr, "%d more rules cannot be said here: edict datapath show\n", n)
	}
	return nil
}
