package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
)

// nodeDescription is all that concerns one node.
type nodeDescription struct {
	resource.Node
	Policies []nodePolicy       `json:"policies"`
	Defaults []resource.Default `json:"defaults"`
	Warnings []resource.Fault   `json:"warnings,omitempty"`
	Refused  *resource.Refused  `json:"refused,omitempty"`
}

// nodePolicy is a policy that matches a node, and whether the node has it.
type nodePolicy struct {
	resource.PolicyRef
	Tier     string     `json:"tier"`
	Priority uint32     `json:"priority"`
	Rules    int        `json:"rules"` // that apply to the node, in either direction
	State    string     `json:"state"` // applied, lagging, silent, or what the node reported
	Since    *time.Time `json:"since,omitempty"`
	Reason   string     `json:"reason,omitempty"`
}

// States of a policy at a node, beside the outcomes that a node reports.
const (
	stateApplied = "applied"
	stateLagging = "lagging"
	stateSilent  = "silent"  // the node never reported
	stateUnknown = "unknown" // more nodes have not applied it than the plane lists
)

// maxLagging is how many nodes that have not applied a policy the plane lists.
const maxLagging = 1000

func (a nodeCommands) nodeDescribeCommand() *cobra.Command {
	return a.shownNode(&cobra.Command{
		Use: "describe ID", Short: "Show a node's facts, its policies, and which it has applied",
		Long: `Show what concerns one node: its labels and addresses, the policies that match it, in
the order in which their rules are tried, whether the node reported that it applied
them (lagging: it reported, and not that; silent: it never reported), and what happens to flows that no rule decides. RULES is how many rules of the policy
apply to the node, in either direction.`,
		Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, project, err := a.plane(cmd)
			if err != nil {
				return err
			}
			d, err := describeNode(cmd.Context(), c, project, args[0])
			if err != nil {
				return err
			}
			return a.print(d, func(w io.Writer) { writeNodeDescription(w, d) })
		},
	})
}

func describeNode(ctx context.Context, c *client.Client, project uuid.UUID, id string) (d nodeDescription, err error) {
	if d.Node, err = c.Nodes.Report(ctx, project, id); err != nil {
		return d, err
	}
	list, err := c.Nodes.Policies(ctx, id, true)
	if err != nil {
		return d, err
	}
	d.Policies, d.Defaults, d.Warnings, d.Refused = policiesIn(list), list.Defaults, list.Warnings, list.Refused
	const atOnce = 16
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i := range d.Policies {
		g.Go(func() error {
			r, err := c.Policies.Rollout(ctx, project, d.Policies[i].Policy, maxLagging)
			d.Policies[i].setState(d.Node, r)
			return err
		})
	}
	return d, g.Wait()
}

// policiesIn are the policies of a list of rules, in the order of their first rules.
func policiesIn(list resource.NodePolicies) []nodePolicy {
	all := []nodePolicy{}
	counted := map[string]bool{} // a rule may apply in both directions
	for _, l := range list.Lines {
		at := slices.IndexFunc(all, func(p nodePolicy) bool { return p.Policy == l.Policy })
		if at < 0 {
			at = len(all)
			all = append(all, nodePolicy{PolicyRef: resource.PolicyRef{Policy: l.Policy, Slug: l.Slug}, Tier: l.Tier, Priority: l.Priority})
		}
		if rule := placeText(l.PlacedRule); l.Applies && !counted[rule] {
			counted[rule] = true
			all[at].Rules++
		}
	}
	return all
}

// setState says what a rollout has of the node. It lists nodes as lagging that never reported,
// too; of these the node's own report says that they are silent.
func (p *nodePolicy) setState(n resource.Node, r resource.Rollout) {
	p.State = stateApplied
	if i := slices.IndexFunc(r.Refusals, func(x resource.Refusal) bool { return x.NodeID == n.ID }); i >= 0 {
		p.State, p.Since, p.Reason = r.Refusals[i].Outcome, &r.Refusals[i].Since, r.Refusals[i].Reason
	} else if i := slices.IndexFunc(r.Lagging, func(x resource.Lagging) bool { return x.NodeID == n.ID }); i >= 0 {
		p.State, p.Since = stateLagging, r.Lagging[i].Since
		if n.Report != nil && n.Report.State == stateSilent {
			p.State = stateSilent
		}
	} else if len(r.Lagging) >= maxLagging {
		p.State = stateUnknown
	}
}

func writeNodeDescription(w io.Writer, d nodeDescription) {
	fmt.Fprintf(w, "Node:             %s\nProject:          %s\n", d.ID, d.ProjectID)
	fmt.Fprintf(w, "Labels:           %s\nAddresses:        %s\n", dash(labelText(d.Labels)), dash(strings.Join(d.Addresses, ",")))
	if d.Report != nil { // an older plane does not say it
		fmt.Fprintf(w, "State:            %s\n", d.Report.State)
	}
	applied := 0
	rows := make([][]string, len(d.Policies))
	for i, p := range d.Policies {
		since := "-"
		if p.Since != nil {
			since = stamp(*p.Since)
		}
		rows[i] = []string{p.Slug, p.Tier, fmt.Sprint(p.Priority), fmt.Sprint(p.Rules), p.State, since, p.Reason}
		if p.State == stateApplied {
			applied++
		}
	}
	fmt.Fprintf(w, "Policies:         %d of %d applied\n", applied, len(d.Policies))
	for _, x := range d.Defaults {
		fmt.Fprintf(w, "%-18s%s\n", "Default "+x.Direction+":", x.Verdict)
	}
	for _, line := range fewFaults(d.Warnings) {
		fmt.Fprintf(w, "Warning:          %s\n", line)
	}
	if r := d.Refused; r != nil {
		fmt.Fprintf(w, "Refused:          the newest table: %s (%s)\n", r.Detail, r.Code)
	}
	if len(rows) > 0 {
		fmt.Fprintln(w)
		columns(w, []string{"policy", "tier", "priority", "rules", "state", "since", "reason"}, rows)
	}
}
