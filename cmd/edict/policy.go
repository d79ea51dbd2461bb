package main

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
)

// policyCommands write and read policies.
type policyCommands struct{ *app }

func (a policyCommands) policyCommand() *cobra.Command {
	return group("policy", "Write and read policies",
		a.policyApplyCommand(), a.policyGetCommand(), a.policyDescribeCommand(), a.policyListCommand(), a.policyEditCommand(), a.policyDeleteCommand(),
		a.policyImportCommand(), a.policyRevisionsCommand(), a.policyDiffCommand(), a.policyDryRunCommand(), a.policyPlanCommand(), a.policyRolloutCommand(),
		a.policyStageCommand(), a.policyPromoteCommand(), a.policyWaveCommand(), a.policyAbortCommand())
}

// policyClient gives a command the flags of those who read or write policies.
func (a policyCommands) policyClient(cmd *cobra.Command) *cobra.Command {
	a.clientFlags(cmd)
	a.projectFlag(cmd)
	a.outputFlag(cmd)
	return cmd
}

// namedPolicy is what a command about one policy begins with.
func (a policyCommands) namedPolicy(cmd *cobra.Command, name string) (*client.Client, resource.Policy, error) {
	c, project, err := a.plane(cmd)
	if err != nil {
		return nil, resource.Policy{}, err
	}
	p, err := findPolicy(cmd.Context(), c, project, name)
	return c, p, err
}

// findPolicy reads a policy by its slug or its id. What reads as an id may be a slug: a hash
// does.
func findPolicy(ctx context.Context, c *client.Client, project uuid.UUID, name string) (resource.Policy, error) {
	missing := noPolicy(name, project)
	if id, err := uuid.Parse(name); err == nil {
		p, err := c.Policies.Get(ctx, project, id)
		if codeOf(err) != cli.NotFound {
			return p, err
		}
		missing = err
	}
	p, ok, err := c.Policies.Named(ctx, project, name)
	if err == nil && !ok {
		err = missing
	}
	return p, err
}

// idOfPolicy is the id of a policy that is named by its slug or its id, which names one that was
// deleted, too.
func idOfPolicy(ctx context.Context, c *client.Client, project uuid.UUID, name string) (uuid.UUID, error) {
	p, err := findPolicy(ctx, c, project, name)
	if id, none := uuid.Parse(name); none == nil && err != nil && exitCode(err) == cli.NotFound {
		return id, nil
	}
	return p.ID, err
}

func noPolicy(name string, project uuid.UUID) error {
	return cli.Failed(cli.NotFound, "no policy %q in project %s; see 'edict policy list'", name, project)
}

// each runs f for every name and goes on after an error; the first decides.
func each(names []string, f func(name string) error) (err error) {
	for _, name := range names {
		err = errors.Join(err, f(name))
	}
	return err
}
