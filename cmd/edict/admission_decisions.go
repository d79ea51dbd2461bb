package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/admission"
)

// decisionsFlags are the flags of `admission decisions`.
type decisionsFlags struct {
	policy, user, tenant, outcome, since, until string
	limit                                       int
	watch                                       bool
}

func (a admissionCommands) admissionDecisionsCommand() *cobra.Command {
	var f decisionsFlags
	cmd := &cobra.Command{
		Use:   "decisions",
		Short: "List what admission policies decided, newest first, or follow it",
		Long: `List what admission policies decided, newest first, from the decision log (edict
serve --decision-log), or follow it with --watch. Administrators of tenants, and
users, see their own.`,
		Example: `  edict admission decisions --outcome rejected --since 2h
  edict admission decisions --user ana --watch`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.admissionDecisions(cmd, f) },
	}
	a.clientFlags(cmd)
	a.outputFlag(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.policy, "policy", "", "only those in which the policy of this id or name refused, failed, judged, or would have as a shadow")
	flags.StringVar(&f.user, "user", "", "only those that this user asked for")
	flags.StringVar(&f.tenant, "tenant", "", "only those of this tenant")
	flags.StringVar(&f.outcome, "outcome", "", "only those that ended so: "+strings.Join(admission.Outcomes, ", "))
	flags.StringVar(&f.since, "since", "", "only those of this moment (RFC 3339) or later; or how long ago, such as 2h")
	flags.StringVar(&f.until, "until", "", "only those before, likewise")
	countVar(flags, &f.limit, "limit", 50, "at most so many")
	flags.BoolVarP(&f.watch, "watch", "w", false, "follow those that are decided from now on")
	return cmd
}

// filter is what the flags ask of the route.
func (f decisionsFlags) filter(cmd *cobra.Command, now time.Time) (url.Values, error) {
	q := url.Values{}
	for name, value := range map[string]string{"policy": f.policy, "user": f.user, "tenant": f.tenant, "outcome": f.outcome} {
		if value != "" {
			q.Set(name, value)
		}
	}
	for name, text := range map[string]string{"since": f.since, "until": f.until} {
		if text == "" {
			continue
		}
		at, err := momentOf(cmd, name, text, now)
		if err != nil {
			return nil, err
		}
		q.Set(name, at)
	}
	if f.watch && (f.since != "" || f.until != "") {
		return nil, cli.Usage(cmd, "--watch shows what is decided from now on: leave --since and --until out")
	}
	return q, nil
}

func (a admissionCommands) admissionDecisions(cmd *cobra.Command, f decisionsFlags) error {
	filter, err := f.filter(cmd, time.Now())
	if err != nil {
		return err
	}
	c, err := a.client(cmd)
	if err != nil {
		return err
	}
	if f.watch {
		return a.followDecisions(cmd.Context(), c, filter)
	}
	found := []resource.Decision{}
	for d, err := range c.Admission.AllDecisions(cmd.Context(), filter) {
		if err != nil {
			return err
		}
		if len(found) == f.limit {
			break
		}
		found = append(found, d)
	}
	return a.print(found, func(w io.Writer) {
		rows := make([][]string, len(found))
		for i, d := range found {
			rows[i] = decisionRow(d)
		}
		columns(w, decisionHeader, rows)
	})
}

var decisionHeader = []string{"time", "outcome", "policy", "judged by", "service", "user", "tenant", "reason", "id"}

func decisionRow(d resource.Decision) []string {
	policy := ""
	if d.Policy != nil {
		policy = d.Policy.Name
	}
	outcome := d.Outcome
	if d.DryRun {
		outcome += " (dry run)"
	}
	return []string{stamp(d.Time), outcome, policy, judgedBy(d), d.ServiceType, d.UserID, d.TenantID, d.Reason, d.DecisionID}
}

// judgedBy names the first policies that judged, in the order of the chain.
func judgedBy(d resource.Decision) string {
	const most = 3
	var names []string
	for _, p := range d.Policies[:min(len(d.Policies), most)] {
		names = append(names, p.Name)
	}
	if more := len(d.Policies) - len(names) + d.PoliciesLeftOut; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// followDecisions prints a line a decision until ctx ends.
func (a admissionCommands) followDecisions(ctx context.Context, c *client.Client, filter url.Values) error {
	events, err := c.Admission.DecisionEvents(ctx, filter, "")
	if err != nil {
		return err
	}
	defer events.Close()
	shown := follow(a.stdout, decisionHeader, false, map[string]int{"time": 9, "policy": 12, "judged by": 12})
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		text, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var d resource.Decision
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			return cli.Failed(cli.Unavailable, "what the plane sent is no decision: %v; see what stands between", err)
		}
		if err := a.printDecision(d, text, shown); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	if err := lines.Err(); err != nil {
		return cli.Failed(cli.Unavailable, "the stream of the plane has broken: %v", err)
	}
	return cli.Failed(cli.Unavailable, "the plane has ended the stream")
}

// printDecision prints one that came as text.
func (a admissionCommands) printDecision(d resource.Decision, text string, shown *followed) (err error) {
	switch {
	case a.format != formatTable:
		_, err = fmt.Fprintln(a.stdout, text)
	case shown != nil:
		err = shown.row(decisionRow(d))
	default:
		_, err = fmt.Fprintln(a.stdout, cli.Escaped(strings.Join(decisionRow(d), "  "), ""))
	}
	return err
}
