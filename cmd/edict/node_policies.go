package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
)

func (a nodeCommands) nodePoliciesCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "policies ID", Short: "List the rules that a node enforces, in their order",
		Long: `List the rules of the policies that match a node, in the order in which they are
tried, and the default of each direction with the policies for which it denies. A
rule is named by its policy and its index there, from 0.

With --all, the rules that do not apply to the node stand where they would be tried,
each with the reason.`,
		Example: `  edict node policies web-1
  edict node policies web-1 --all`,
		Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client(cmd)
			if err != nil {
				return err
			}
			list, err := c.Nodes.Policies(cmd.Context(), args[0], all)
			if err != nil {
				return err
			}
			a.warnFaults(list.Warnings)
			a.warnRefused(list.Refused)
			return a.print(list, func(w io.Writer) { writeNodePolicies(w, list, all) })
		},
	}
	a.clientFlags(cmd)
	a.outputFlag(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "also the rules that do not apply to the node, with the reason")
	return cmd
}

func writeNodePolicies(w io.Writer, list resource.NodePolicies, all bool) {
	header := []string{"direction", "tier", "priority", "rule", "says"}
	if all {
		header = append(header, "does not apply")
	}
	rows := make([][]string, len(list.Lines))
	for i, l := range list.Lines {
		rows[i] = []string{l.Direction, l.Tier, fmt.Sprint(l.Priority), placeText(l.PlacedRule), l.Text}
		if all {
			rows[i] = append(rows[i], dash(l.Reason))
		}
	}
	if len(rows) > 0 {
		columns(w, header, rows)
		fmt.Fprintln(w)
	}
	for _, d := range list.Defaults {
		fmt.Fprintf(w, "%-18s%s\n", "Default "+d.Direction+":", defaultText(d))
	}
}

func placeText(r resource.PlacedRule) string { return ruleText(r.Slug, r.Index) }

// ruleText names a rule by its policy and its index there.
func ruleText(slug string, index int) string { return fmt.Sprintf("%s[%d]", slug, index) }

// defaultText is a default, and for which policies it denies.
func defaultText(d resource.Default) string {
	if len(d.Policies) == 0 {
		return d.Verdict
	}
	names := make([]string, len(d.Policies))
	for i, p := range d.Policies {
		names[i] = p.Slug
	}
	return d.Verdict + ", because of " + strings.Join(names, ", ")
}

// warnFaults writes warnings about a node's rules.
func (a *app) warnFaults(list []resource.Fault) {
	for _, line := range fewFaults(list) {
		fmt.Fprintf(a.stderr, "warning: %s\n", line)
	}
}

// maxAlike is how many warnings of one code are shown to people.
const maxAlike = 2

// fewFaults are warnings as lines; of many that are alike the first, and how many more
// there are.
func fewFaults(list []resource.Fault) (lines []string) {
	count := map[string]int{}
	for _, f := range list {
		if count[f.Code]++; count[f.Code] <= maxAlike {
			lines = append(lines, fmt.Sprintf("%s (%s)", f.Detail, f.Code))
		}
	}
	for _, code := range slices.Sorted(maps.Keys(count)) {
		if more := count[code] - maxAlike; more > 0 {
			lines = append(lines, fmt.Sprintf("and %d more (%s); -o json has them all", more, code))
		}
	}
	return lines
}

func (a *app) warnRefused(r *resource.Refused) {
	if r != nil {
		fmt.Fprintf(a.stderr, "warning: this is the last good table, a newer one is refused: %s (%s)\n", r.Detail, r.Code)
	}
}
