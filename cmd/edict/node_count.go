package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/convergence"
)

// reportFlags say which nodes are meant, and of whom.
type reportFlags struct {
	selector string
	states   []string
	every    bool // of every project
}

func (f *reportFlags) add(cmd *cobra.Command) {
	selectorFlag(cmd, &f.selector)
	cmd.Flags().BoolVarP(&f.every, "all-projects", "A", false, "those of all projects, whatever --project says; needs plane#read")
}

// reported says whether also what nodes reported is asked for.
func (f *reportFlags) reported() bool { return f.every || len(f.states) > 0 }

// asked is a client of the plane, and what the flags ask of it.
func (a nodeCommands) asked(cmd *cobra.Command, f *reportFlags) (*client.Client, client.ReportQuery, error) {
	c, project, err := a.plane(cmd)
	if err != nil {
		return nil, client.ReportQuery{}, err
	}
	for _, s := range f.states {
		if !slices.Contains(convergence.States[:], s) {
			return nil, client.ReportQuery{}, cli.Usage(cmd, "--state %q: want %s", s, strings.Join(convergence.States[:], ", "))
		}
	}
	if f.every {
		project = uuid.Nil
	}
	return c, client.ReportQuery{Project: project, Selector: selectorOf(f.selector), States: f.states}, nil
}

// reportedListing are the columns of nodes with what they reported.
var reportedListing = listing[resource.Node]{
	kind: "node", name: nodeListing.name,
	columns: []column[resource.Node]{
		nodeListing.columns[0],
		{"state", func(n resource.Node) string { return n.Report.State }, false},
		{"reported", func(n resource.Node) string { return sequence(n.Report.Version) }, false},
		{"desired", func(n resource.Node) string { return sequence(n.Report.DesiredVersion) }, false},
		{"reported at", func(n resource.Node) string {
			if n.Report.Since == nil {
				return "-"
			}
			return stamp(*n.Report.Since)
		}, false},
		{"reason", func(n resource.Node) string { return n.Report.Reason }, false},
		{"labels", func(n resource.Node) string { return labelText(n.Labels) }, true},
		{"project", func(n resource.Node) string { return n.ProjectID.String() }, true},
	},
}

// sequence is a log sequence, or - for none.
func sequence(n uint64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func (a nodeCommands) nodeCountCommand() *cobra.Command {
	var f reportFlags
	var by string
	var limit int
	cmd := &cobra.Command{
		Use: "count", Short: "Count nodes by where they stand with what is asked of them", Args: cli.Args(0, 0),
		Long: `Count nodes: those that have applied what they must, those that lag, those that refused it,
and those that never reported. With --by, also for each value of a label, the value with
the most nodes first that have not applied what they must.`,
		Example: `  edict node count --by zone
  edict node count -A -l role=web`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, q, err := a.asked(cmd, &f)
			if err != nil {
				return err
			}
			n, err := c.Nodes.Count(cmd.Context(), q, by, limit)
			if err != nil {
				return err
			}
			return a.print(n, func(w io.Writer) { writeNodeCounts(w, n) })
		},
	}
	a.nodeClient(cmd)
	f.add(cmd)
	cmd.Flags().StringVar(&by, "by", "", "key of the label by whose value to count as well")
	countVar(cmd.Flags(), &limit, "limit", 0, "values to show, at most 1000 (default 100)")
	return cmd
}

func writeNodeCounts(w io.Writer, n resource.NodeCounts) {
	cells := func(name string, x resource.ByState) []string {
		return []string{name, fmt.Sprint(x.Nodes), fmt.Sprint(x.Applied), fmt.Sprint(x.Lagging), fmt.Sprint(x.Refused), fmt.Sprint(x.Silent)}
	}
	rows := [][]string{cells("all", n.ByState)}
	for _, g := range n.Groups {
		name := "without " + n.By
		if g.Value != nil {
			name = n.By + "=" + *g.Value
		}
		rows = append(rows, cells(name, g.ByState))
	}
	columns(w, []string{"nodes of", "nodes", "applied", "lagging", "refused", "silent"}, rows)
	if n.Values != nil && *n.Values > len(n.Groups) {
		fmt.Fprintf(w, "%d more values: --limit\n", *n.Values-len(n.Groups))
	}
}
