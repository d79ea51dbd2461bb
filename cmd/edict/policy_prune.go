package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/internal/compiler/kubernetes"
)

// prune removes the policies of earlier imports from Kubernetes that this one does
// not have. It removes none unless the import is whole: an object that could not be
// read is not one that is gone.
func (m *importer) prune(ctx context.Context, c *client.Client, project uuid.UUID) error {
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
		if err := c.Policies.Delete(ctx, project, p.ID); err != nil {
			return fmt.Errorf("remove policy %s: %w", p.Slug, err)
		}
		m.count.Removed++
		fmt.Fprintf(m.stderr, "policy/%s removed\n", p.Slug)
	}
	return nil
}
