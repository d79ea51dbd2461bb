package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/compiler/kubernetes"
)

// outcomeDeleted is of a policy that its owner's files do not have.
const outcomeDeleted = "deleted"

// check refuses files that another apply of the same owner would leave alone.
func (a applying) check(cmd *cobra.Command) error {
	if a.prune == "" && cmd.Flags().Changed("prune") { // such as a variable of a script that is not set
		return cli.Usage(cmd, `--prune "": want the prefix of an owner's slugs, such as team-a-; without the flag nothing is deleted`)
	}
	if a.prune == "" {
		return nil
	}
	for _, d := range a.drafts {
		if !strings.HasPrefix(d.Slug, a.prune) {
			return cli.Usage(cmd, "--prune %s: policy %s of %s is not of that owner, since its slug begins otherwise", a.prune, d.Slug, d.At.File)
		}
	}
	return nil
}

// deleteOthers deletes the policies of an owner that files do not have, once these are
// applied.
func (a applying) deleteOthers(ctx context.Context, dry bool) (deleted []applied, err error) {
	if a.prune == "" {
		return nil, nil
	}
	stays := map[string]bool{}
	for _, d := range a.drafts {
		stays[d.Slug] = true
	}
	ids, err := policyIDs(ctx, a.c, a.project)
	if err != nil {
		return nil, err
	}
	gone := slices.DeleteFunc(slices.Sorted(maps.Keys(ids)), func(slug string) bool { return !strings.HasPrefix(slug, a.prune) || stays[slug] })
	err = each(gone, func(slug string) error {
		id := ids[slug]
		err := a.c.Policies.Delete(ctx, a.project, id, dryCalls(dry)...)
		if err == nil {
			deleted = append(deleted, applied{Slug: slug, Outcome: outcomeDeleted, ID: &id})
		}
		return err
	})
	return deleted, err
}

// prune removes the policies of earlier imports from Kubernetes that this one does
// not have. It removes none unless the import is whole: an object that could not be
// read is not one that is gone.
func (m *importer) prune(ctx context.Context, c *client.Client, project uuid.UUID, calls ...client.Call) error {
	switch {
	case len(m.kube.slugs) == 0:
		return errors.New("nothing is removed: the input has no policies from Kubernetes, and without any all of them would go")
	case m.kube.refused || m.kube.lost || m.unreadable || m.count.Rejected > 0:
		return errors.New("nothing is removed: not all of the input was applied; change what is reported above")
	}
	all, err := collect(c.Policies.All(ctx, project))
	if err != nil {
		return err
	}
	for _, p := range all {
		if !kubernetes.Owns(p.Slug) || m.kube.slugs[p.Slug] {
			continue
		}
		if err := c.Policies.Delete(ctx, project, p.ID, calls...); err != nil {
			return fmt.Errorf("remove policy %s: %w", p.Slug, err)
		}
		m.count.Removed++
		fmt.Fprintf(m.stderr, "policy/%s removed\n", p.Slug)
	}
	return nil
}
