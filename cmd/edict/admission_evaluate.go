package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/edict/internal/document"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/admission"
)

func (a admissionCommands) admissionEvaluateCommand() *cobra.Command {
	var files []string
	var explain bool
	cmd := &cobra.Command{
		Use:   "evaluate -f FILE",
		Short: "Run a request through the admission policies that match it",
		Long: `Run a request through the admission policies of the plane that match it, and
print what comes out. The file holds {"request_payload", "user_id", "tenant_id"}
as JSON or YAML; the last two are optional.

Exit code 1 when a policy rejects the request, is in conflict or fails. With
--explain every policy is listed: whether it matched or why not, what it did.`,
		Example: `  edict admission evaluate -f request.json
  edict admission evaluate -f request.json --explain`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.admissionEvaluate(cmd, files, explain) },
	}
	a.clientFlags(cmd)
	a.outputFlag(cmd)
	filesFlag(cmd, &files)
	cmd.Flags().BoolVar(&explain, "explain", false, "say what each policy did")
	return cmd
}

// refused is what evaluate prints of a request that did not pass.
type refused struct {
	Code    string                `json:"code"`
	Detail  string                `json:"detail"`
	Policy  *resource.Deciding    `json:"policy,omitempty"`
	Errors  []resource.Fault      `json:"errors,omitempty"`
	Explain *resource.Explanation `json:"explain,omitempty"`
}

func (a admissionCommands) admissionEvaluate(cmd *cobra.Command, files []string, explain bool) error {
	c, err := a.client(cmd)
	if err != nil {
		return err
	}
	docs, faults := document.Load(files, a.stdin)
	if err := a.reportFaults(faults); err != nil {
		return err
	}
	if len(docs) != 1 {
		return cli.Failed(cli.Unreadable, "the input has %d documents; want one request", len(docs))
	}
	admitted, err := c.Admission.Evaluate(cmd.Context(), docs[0].JSON, explain)
	var problem *client.Problem
	if err != nil && (!errors.As(err, &problem) || problem.Policy == nil) {
		return err
	}
	out, steps := any(admitted), admitted.Explain
	if problem != nil {
		out, steps = refused{problem.Code, problem.Detail, problem.Policy, problem.Errors, problem.Explain}, problem.Explain
	}
	return cmp.Or(a.print(out, func(w io.Writer) {
		if problem == nil {
			writeAdmitted(w, admitted)
		}
		if steps != nil {
			writeSteps(w, steps)
		}
	}), err)
}

func writeAdmitted(w io.Writer, r resource.Admitted) {
	fmt.Fprintf(w, "Status:    %s\n", r.Status)
	p := r.ServiceProvider
	if p.Value != "" {
		fmt.Fprintf(w, "Provider:  %s\n", cli.Escaped(p.Value, ""))
	}
	if len(p.Constraints.AllowList) > 0 {
		fmt.Fprintf(w, "Allowed:   %s\n", cli.Escaped(strings.Join(p.Constraints.AllowList, ", "), ""))
	}
	if len(p.Constraints.Patterns) > 0 {
		fmt.Fprintf(w, "Patterns:  %s\n", cli.Escaped(strings.Join(p.Constraints.Patterns, " and "), ""))
	}
	if b, err := json.MarshalIndent(r.RequestPayload, "", "  "); err == nil {
		fmt.Fprintf(w, "\n%s\n", cli.Escaped(string(b), "\n"))
	}
}

// writeSteps lists what each policy did.
func writeSteps(w io.Writer, e *resource.Explanation) {
	rows := make([][]string, 0, len(e.Steps))
	for _, raw := range e.Steps {
		var s admission.Step
		if json.Unmarshal(raw, &s) != nil {
			continue
		}
		took := "-"
		if s.Took > 0 {
			took = s.Took.Round(time.Microsecond).String()
		}
		name := s.PolicyName
		if s.Mode == admission.Shadow {
			name += " (shadow)"
		}
		rows = append(rows, []string{s.Level.String(), fmt.Sprint(s.Priority), name, string(s.Outcome), took, effect(s)})
	}
	fmt.Fprintf(w, "\nPolicies as of %d, in the order of the chain:\n", e.SnapshotVersion)
	columns(w, []string{"level", "priority", "policy", "outcome", "time", "what"}, rows)
}

// effect says what a policy did, or why it did nothing.
func effect(s admission.Step) string {
	if s.Reason != "" {
		return s.Reason
	}
	var parts []string
	if len(s.Diff) > 0 {
		parts = append(parts, diffText(s.Diff))
	}
	for _, path := range slices.Sorted(maps.Keys(s.Constraints)) {
		b, _ := json.Marshal(s.Constraints[path])
		parts = append(parts, "constrain "+path+" "+string(b))
	}
	if s.Provider != "" {
		parts = append(parts, "choose "+s.Provider)
	}
	return strings.Join(parts, "; ")
}

// diffText is a JSON patch on one line.
func diffText(diff []admission.Change) string {
	parts := make([]string, len(diff))
	for i, c := range diff {
		parts[i] = c.Op + " " + c.Path
		if c.Op != "remove" {
			b, _ := json.Marshal(c.Value) // of what was JSON
			parts[i] += " " + string(b)
		}
	}
	return strings.Join(parts, "; ")
}
