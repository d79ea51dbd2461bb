package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
)

func (a admissionCommands) admissionExplainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain DECISION-ID",
		Short: "Explain a decision of the decision log",
		Long: `Show a decision of the decision log, what each policy that judged it says of its
request as it was then, which of them have changed since, and what each admission
policy says of the request now. Nothing is decided, and nothing written. A request
that was masked cannot be asked again, and asking needs plane#read.`,
		Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.admissionExplain(cmd, args[0]) },
	}
	a.clientFlags(cmd)
	a.outputFlag(cmd)
	return cmd
}

// explained is a stored decision, and what policies say of its request, then and now.
type explained struct {
	Decision    resource.Decision         `json:"decision"`
	Policies    []resource.DecidingPolicy `json:"policies,omitempty"`
	StatusThen  string                    `json:"status_then,omitempty"`
	ExplainThen *resource.Explanation     `json:"explain_then,omitempty"` // absent: Unjudged says why
	Status      string                    `json:"status_now,omitempty"`
	Explain     *resource.Explanation     `json:"explain,omitempty"` // absent: it cannot be asked again
	Unjudged    string                    `json:"unjudged,omitempty"`
}

func (a admissionCommands) admissionExplain(cmd *cobra.Command, id string) error {
	c, err := a.client(cmd)
	if err != nil {
		return err
	}
	out := explained{}
	for d, err := range c.Admission.AllDecisions(cmd.Context(), url.Values{"decision": {id}}) {
		if err != nil {
			return err
		}
		out.Decision = d
		break // older ones need not be looked through
	}
	if out.Decision.Seq == 0 {
		return cli.Failed(cli.NotFound, "no decision %s; see 'edict admission decisions'", id)
	}
	more, err := c.Admission.ExplainDecision(cmd.Context(), out.Decision.Seq)
	var problem *client.Problem
	switch {
	case errors.As(err, &problem) && problem.Status == http.StatusForbidden:
		out.Unjudged = problem.Detail // it may be seen, and policies not be asked
	case err != nil:
		return err
	default:
		out.add(more)
	}
	return a.print(out, func(w io.Writer) { out.write(w) })
}

func (x *explained) add(more resource.DecisionExplanation) {
	x.Policies, x.Unjudged = more.Policies, more.Unjudged
	if v := more.Then; v != nil {
		x.StatusThen, x.ExplainThen = v.Status, v.Explain
	}
	if v := more.Now; v != nil {
		x.Status, x.Explain = v.Status, v.Explain
	}
}

func (x *explained) write(to io.Writer) {
	d := x.Decision
	line := func(name, format string, args ...any) {
		fmt.Fprintf(to, "%-10s %s\n", name+":", cli.Escaped(fmt.Sprintf(format, args...), ""))
	}
	line("Decision", "%s", d.DecisionID)
	line("Time", "%s", stamp(d.Time))
	line("Worker", "%s", d.Worker)
	line("Policies", "as of %d", d.SnapshotVersion)
	line("Outcome", "%s", d.Outcome)
	if d.Policy != nil {
		line("Policy", "%s (%s)", d.Policy.Name, d.Policy.ID)
		line("Reason", "%s", d.Reason)
	}
	for _, p := range x.Policies {
		line("Judged by", "%s", sinceThen(p))
	}
	if d.UserID+d.TenantID != "" {
		line("Asked by", "%s", strings.TrimSpace(d.UserID+" "+d.TenantID))
	}
	line("Request", "%s", d.RequestPayload)
	if len(d.ResultPayload) > 0 {
		line("Result", "%s", d.ResultPayload)
	}
	x.writeVerdicts(to, line)
}

// writeVerdicts writes what was said then, where others judge now, and what is said now.
func (x *explained) writeVerdicts(to io.Writer, line func(name, format string, args ...any)) {
	switch {
	case x.Status == "":
		line("Now", "it cannot be asked again: %s", x.Unjudged)
		return
	case x.StatusThen == "":
		line("Then", "the policies cannot be asked as they were: %s", x.Unjudged)
	case x.sameSet():
		line("Then", "as now: no policy has changed since")
	default:
		line("Then", "%s", x.StatusThen)
		if x.ExplainThen != nil {
			writeSteps(to, x.ExplainThen)
			fmt.Fprintln(to)
		}
	}
	line("Now", "%s", x.Status)
	if x.Explain != nil {
		writeSteps(to, x.Explain)
	}
}

// sameSet: the policies that judged are the present ones.
func (x *explained) sameSet() bool {
	return x.Explain != nil && x.ExplainThen != nil && x.Explain.SnapshotVersion == x.ExplainThen.SnapshotVersion
}

// sinceThen names a policy that took part in a decision, and what has become of it.
func sinceThen(p resource.DecidingPolicy) string {
	text := fmt.Sprintf("%s, version %d", p.Name, p.Version)
	switch p.State {
	case resource.PolicyChanged:
		return fmt.Sprintf("%s, changed since: it is %d now", text, p.Present)
	case resource.PolicyGone:
		return text + ", gone since"
	case resource.PolicyUnknown:
		return p.Name
	}
	return text
}
