package main

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/google/uuid"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
)

func (a policyCommands) policyDiffCommand() *cobra.Command {
	var from, to string
	var files []string
	cmd := &cobra.Command{
		Use:   "diff NAME|ID | -f FILE...",
		Short: "Compare the rules of two revisions, or files with what is there",
		Long: `Compare the rules of two revisions: by default the head with the one before
it. Order does not count. With -f, print what 'policy apply' would change, but for what
admission policies make of it: 'policy plan' asks them. Exit code 1 when there is a
difference.`,
		Args: cli.Args(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 == (len(files) > 0) {
				return cli.Usage(cmd, "name one policy, or give files with -f")
			}
			if len(files) > 0 {
				return a.diffFiles(cmd, files)
			}
			c, p, err := a.namedPolicy(cmd, args[0])
			if err != nil {
				return err
			}
			older, newer, err := ends(cmd, c, p, from, to)
			if err != nil {
				return err
			}
			d, err := c.Policies.Diff(cmd.Context(), p.ProjectID, p.ID, older, newer)
			if err != nil {
				return err
			}
			if err := a.print(d, func(w io.Writer) { writeDiff(w, d) }); err != nil {
				return err
			}
			return differs(d)
		},
	}
	a.policyClient(cmd)
	filesFlagMaybe(cmd, &files)
	cmd.Flags().StringVar(&from, "from", "", "older revision (default the one before --to)")
	cmd.Flags().StringVar(&to, "to", "", "newer revision (default the head)")
	return cmd
}

// ends are the two revisions to compare.
func ends(cmd *cobra.Command, c *client.Client, p resource.Policy, from, to string) (older, newer uuid.UUID, err error) {
	newer = p.HeadRevisionID
	if to != "" {
		if newer, err = uuid.Parse(to); err != nil {
			return older, newer, cli.Usage(cmd, "--to %q is not a UUID", to)
		}
	}
	if from != "" {
		if older, err = uuid.Parse(from); err != nil {
			return older, newer, cli.Usage(cmd, "--from %q is not a UUID", from)
		}
		return older, newer, nil
	}
	older, err = parent(cmd.Context(), c, p, newer)
	return older, newer, err
}

func parent(ctx context.Context, c *client.Client, p resource.Policy, revision uuid.UUID) (uuid.UUID, error) {
	r, err := c.Policies.Revision(ctx, p.ProjectID, p.ID, revision)
	if err != nil {
		return uuid.Nil, err
	}
	if r.ParentID == nil {
		return uuid.Nil, cli.Failed(cli.NotFound, "revision %s is the first of policy %s: there is nothing before it", revision, p.Slug)
	}
	return *r.ParentID, nil
}

// differs is exit code 1 when there is a difference.
func differs(d resource.Diff) error {
	if d.Empty() {
		return nil
	}
	return cli.Exit(cli.Differs)
}

// orderCells are tier, priority, default_deny and mode; what is not set is a dash.
func orderCells(o resource.Order) [4]string {
	cells := [4]string{cmp.Or(o.Tier, "-"), "-", "true", cmp.Or(o.Mode, "enforce")}
	if o.Priority != nil {
		cells[1] = fmt.Sprint(*o.Priority)
	}
	if o.DefaultDeny != nil {
		cells[2] = fmt.Sprint(*o.DefaultDeny)
	}
	return cells
}

var signColours = map[string]text.Colors{"+": good, "-": bad, "~": aside}

// writeDiff writes lines that begin with +, - or ~.
func writeDiff(w io.Writer, d resource.Diff) {
	if o := d.Order; o != nil {
		before, after := orderCells(o.Before), orderCells(o.After)
		for i, name := range []string{"tier", "priority", "default_deny", "mode"} {
			if before[i] != after[i] {
				fmt.Fprintf(w, "~ %s: %s -> %s\n", name, before[i], after[i])
			}
		}
	}
	line := func(sign string, r resource.Rule, more string) {
		cells := ruleCells(r)
		change := fmt.Sprintf("%s %s %s %s %s -> %s%s", sign, cells[0], cells[1], cells[2], cells[3], cells[4], more)
		fmt.Fprintln(w, coloured(w, signColours[sign], change))
	}
	for _, r := range d.Removed {
		line("-", r, "")
	}
	for _, r := range d.Added {
		line("+", r, "")
	}
	for _, m := range d.Modified {
		line("~", m.After, " (was "+ruleCells(m.Before)[0]+")")
	}
	if d.Reordered {
		fmt.Fprintln(w, "~ the same rules in another order")
	}
}
