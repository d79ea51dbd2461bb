package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/edict/internal/author"
	"github.com/edictdev/edict/cmd/internal/cli"
)

// admissionCommands write, read and try admission policies.
type admissionCommands struct{ *app }

func (a admissionCommands) admissionCommand() *cobra.Command {
	return group("admission", "Write, try and read admission policies",
		a.admissionApplyCommand(), a.admissionGetCommand(), a.admissionListCommand(), a.admissionDeleteCommand(),
		a.admissionEvaluateCommand(), a.admissionTestCommand(), a.admissionReplayCommand(),
		a.admissionDecisionsCommand(), a.admissionExplainCommand())
}

// findAdmission reads an admission policy by its id or its name.
func findAdmission(ctx context.Context, c *client.Client, name string) (resource.AdmissionPolicy, error) {
	p, err := c.Admission.Get(ctx, name)
	if codeOf(err) != cli.NotFound {
		return p, err
	}
	found, err := collect(c.Admission.All(ctx, map[string][]string{"name": {name}}))
	switch {
	case err != nil:
		return p, err
	case len(found) == 0:
		return p, cli.Failed(cli.NotFound, "no admission policy %q; see 'edict admission list'", name)
	case len(found) > 1:
		ids := make([]string, len(found))
		for i, x := range found {
			ids[i] = fmt.Sprintf("%s (%s)", x.ID, levelAndOwner(x))
		}
		return p, cli.Failed(cli.Conflict, "%d admission policies are called %q; name one by its id: %s", len(found), name, strings.Join(ids, ", "))
	}
	return found[0], nil
}

// levelAndOwner says whom a policy is for.
func levelAndOwner(p resource.AdmissionPolicy) string {
	text := p.PolicyType
	if p.TenantID != "" {
		text += " " + p.TenantID
	}
	if p.UserID != "" {
		text += " " + p.UserID
	}
	return text
}

// admissionDrafts reads and checks files, and tells every fault.
func (a admissionCommands) admissionDrafts(ctx context.Context, files []string) ([]author.AdmissionDraft, error) {
	drafts, faults := author.AdmissionDrafts(ctx, files, a.stdin)
	if err := a.reportFaults(faults); err != nil {
		return nil, err
	}
	if len(drafts) == 0 {
		return nil, cli.Failed(cli.Unreadable, "no admission policy in the input")
	}
	return drafts, nil
}
