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

// pruning deletes the policies of an owner that files do not have.
type pruning struct {
	policyCommands
	prefix string // of the slugs of the owner's policies; "": nothing is deleted
	files  []string
	dry    bool
}

// check refuses files that another apply of the same owner would leave alone.
func (a pruning) check(cmd *cobra.Command) error {
	if a.prefix == "" {
		return nil
	}
	if slices.Contains(a.files, "-") {
		return cli.Usage(cmd, "--prune: the files are read twice, so stdin cannot be one")
	}
	drafts, err := a.drafts(a.files)
	if err != nil {
		return err
	}
	for _, d := range drafts {
		if !strings.HasPrefix(d.Slug, a.prefix) {
			return cli.Usage(cmd, "--prune %s: policy %s of %s is not of that owner, since its slug begins otherwise", a.prefix, d.Slug, d.At.File)
		}
	}
	return nil
}

// delete does it, once the files are applied.
func (a pruning) delete(cmd *cobra.Command) error {
	if a.prefix == "" {
		return nil
	}
	c, project, drafts, err := a.planeAndDrafts(cmd, a.files)
	if err != nil {
		return err
	}
	stays := map[string]bool{}
	for _, d := range drafts {
		stays[d.Slug] = true
	}
	ids, err := policyIDs(cmd.Context(), c, project)
	if err != nil {
		return err
	}
	gone := slices.DeleteFunc(slices.Sorted(maps.Keys(ids)), func(slug string) bool { return !strings.HasPrefix(slug, a.prefix) || stays[slug] })
	return each(gone, func(slug string) error { return a.policyDelete(cmd.Context(), c, project, ids[slug], slug, a.dry) })
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
