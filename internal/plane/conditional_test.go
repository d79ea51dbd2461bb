package plane

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
)

// TestOneOfManyConditionalWritesIsMade: of those that saw the same state the log takes
// one, and tells the others.
func TestOneOfManyConditionalWritesIsMade(t *testing.T) {
	at, _ := start(t, Options{Data: t.TempDir(), Relaxed: true})
	c := newClient(t, at)
	pol, err := c.Policies.Create(t.Context(), project, resource.Draft{
		Slug: "web", Selector: resource.Selector{Source: "role=web", Destination: "role=db"},
		Rules: []resource.Rule{{Action: "allow", Protocol: "any", SourceCIDR: "10.0.0.0/8", DestinationCIDR: "10.0.0.0/8"}},
	})
	require.NoError(t, err)
	n, _, err := c.Nodes.Put(t.Context(), project, "n1", resource.Facts{})
	require.NoError(t, err)
	head, version := client.IfMatch(client.HeadTag(pol.HeadRevisionID)), client.IfMatch(client.VersionTag(n.Version))

	states := func(writer int) error {
		_, _, err := c.Nodes.Put(t.Context(), project, "n1", resource.Facts{Labels: map[string]string{"by": fmt.Sprint(writer)}}, version)
		return err
	}
	revises := func(writer int) error {
		name := fmt.Sprint("By ", writer)
		_, err := c.Policies.Revise(t.Context(), project, pol.ID, resource.Patch{DisplayName: &name}, head)
		return err
	}
	for name, write := range map[string]func(writer int) error{
		"a node": func(writer int) error {
			if writer == 0 {
				return c.Nodes.Delete(t.Context(), project, "n1", version)
			}
			return states(writer)
		},
		"a policy": func(writer int) error {
			if writer == 0 {
				return c.Policies.Delete(t.Context(), project, pol.ID, head)
			}
			return revises(writer)
		},
	} {
		t.Run(name, func(t *testing.T) {
			const writers = 16
			var made atomic.Int32
			var all sync.WaitGroup
			failed := make([]error, writers)
			for i := range writers {
				all.Go(func() {
					if err := write(i); err == nil {
						made.Add(1)
					} else {
						failed[i] = err
					}
				})
			}
			all.Wait()
			require.EqualValues(t, 1, made.Load())
			for _, err := range failed {
				var p *client.Problem
				if err == nil {
					continue
				}
				require.True(t, errors.As(err, &p), "%v", err)
				require.Contains(t, []string{"precondition_failed", "policy_not_found"}, p.Code, "%v", err)
			}
		})
	}
}
