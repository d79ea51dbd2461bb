package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/edict/internal/author"
	"github.com/edictdev/edict/cmd/internal/cli"
)

func (a admissionCommands) admissionDeleteCommand() *cobra.Command {
	var files []string
	var dry bool
	cmd := &cobra.Command{
		Use: "delete NAME|ID... | -f FILE...", Short: "Delete admission policies", Args: cli.Args(0, -1),
		Long: `Delete admission policies, by name or id, or those that files name within their level and
owner; what the files say of them otherwise does not count.`,
		Example: `  edict admission delete no-telnet
  edict admission delete -f policies/ --dry-run`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) > 0) == (len(files) > 0) {
				return cli.Usage(cmd, "name admission policies, or give files with -f")
			}
			c, err := a.client(cmd)
			if err != nil {
				return err
			}
			if len(files) > 0 {
				return a.deleteFiles(cmd.Context(), c, files, dry)
			}
			return each(args, func(name string) error {
				p, err := findAdmission(cmd.Context(), c, name)
				if err != nil {
					return err
				}
				return a.admissionDelete(cmd.Context(), c, p, dry)
			})
		},
	}
	a.clientFlags(cmd)
	filesFlagMaybe(cmd, &files)
	dryRunFlag(cmd, &dry)
	return cmd
}

// deleteFiles deletes the policies that files name, as apply knows them: another level or owner
// may have one of the same name.
func (a admissionCommands) deleteFiles(ctx context.Context, c *client.Client, files []string, dry bool) error {
	drafts, err := a.admissionDrafts(ctx, files)
	if err != nil {
		return err
	}
	there := map[author.AdmissionName]resource.AdmissionPolicy{}
	for p, err := range c.Admission.All(ctx, nil) {
		if err != nil {
			return err
		}
		there[author.NameOf(documentOf(p))] = p
	}
	var errs error
	for _, d := range drafts {
		p, found := there[author.NameOf(d.AdmissionPolicy)]
		if !found {
			missing := resource.AdmissionPolicy{PolicyType: string(d.Level), TenantID: d.Tenant, UserID: d.User}
			errs = errors.Join(errs, cli.Failed(cli.NotFound, "no admission policy %q of %s; see 'edict admission list'", d.Name, levelAndOwner(missing)))
			continue
		}
		errs = errors.Join(errs, a.admissionDelete(ctx, c, p, dry))
	}
	return errs
}

// admissionDelete deletes a policy that was found; with dry the plane says whether it would.
func (a admissionCommands) admissionDelete(ctx context.Context, c *client.Client, p resource.AdmissionPolicy, dry bool) error {
	if err := c.Admission.Delete(ctx, p.ID, dryCalls(dry)...); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.stdout, "admission/%s deleted%s\n", p.Name, dryNote(dry))
	return err
}
