package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
)

func (a nodeCommands) nodeDiffCommand() *cobra.Command {
	var from, to string
	cmd := &cobra.Command{
		Use: "diff ID --from MOMENT", Short: "Say what became of a node between two moments, by which events", Args: cli.Args(1, 1),
		Long: `Compare what a node had to apply at two moments: its labels, its addresses, and
the policies that gave it rules. A moment is a log sequence, or a time (RFC 3339).
Each line names the last event that changed it. Exit code 1 when there is a
difference.`,
		Example: `  edict node diff web-1 --from 4711
  edict node diff web-1 --from 2026-11-17T12:00:00Z --to 2026-11-17T13:00:00Z`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if from == "" {
				return cli.Usage(cmd, "name the first moment with --from")
			}
			if err := cmp.Or(checkMoment(cmd, "from", &from), checkMoment(cmd, "to", &to)); err != nil {
				return err
			}
			c, err := a.client(cmd)
			if err != nil {
				return err
			}
			d, err := c.Nodes.Diff(cmd.Context(), args[0], from, to)
			if err != nil {
				return atMoment(err, "node "+args[0], strings.TrimSuffix(from+" or at "+to, " or at "))
			}
			if err := a.print(d, func(w io.Writer) { writeNodeDiff(w, d) }); err != nil {
				return err
			}
			if len(d.Rows) > 0 || nodeAtText(d.From) != nodeAtText(d.To) {
				return cli.Exit(cli.Differs)
			}
			return nil
		},
	}
	a.clientFlags(cmd)
	a.outputFlag(cmd)
	cmd.Flags().StringVar(&from, "from", "", "the first moment: a log sequence, or a time such as 2026-11-17T12:00:00Z")
	cmd.Flags().StringVar(&to, "to", "", "the second moment (default now)")
	return cmd
}

// writeNodeDiff writes lines that begin with +, - or ~.
func writeNodeDiff(w io.Writer, d resource.NodeDiff) {
	fmt.Fprintf(w, "%s from event %d to event %d\n", d.NodeID, d.From.Seq, d.To.Seq)
	if before, after := nodeAtText(d.From), nodeAtText(d.To); before != after {
		fmt.Fprintf(w, "~ %s -> %s%s\n", before, after, eventText(d.Event))
	}
	for _, r := range d.Rows {
		sign := map[string]string{"added": "+", "removed": "-"}[r.Change]
		fmt.Fprintf(w, "%s %s%s\n", cmp.Or(sign, "~"), cmp.Or(r.Slug, r.PolicyID.String()), eventText(r.Event))
	}
}

// factsText is a node's facts in a line.
func nodeAtText(n resource.NodeAt) string {
	if n.Facts == nil {
		return "not registered"
	}
	var labels []string
	for _, k := range slices.Sorted(maps.Keys(n.Facts.Labels)) {
		labels = append(labels, k+"="+n.Facts.Labels[k])
	}
	return dash(strings.Join(labels, ",")) + " at " + dash(strings.Join(n.Facts.Addresses, ","))
}

func eventText(e *resource.ChangeEvent) string {
	if e == nil {
		return ""
	}
	return fmt.Sprintf("  (event %d, %s, %s)", e.Seq, e.Type, e.Time.Format(time.RFC3339))
}
