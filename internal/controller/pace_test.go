package controller

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
)

// busy is a plane that takes two of three requests about policies, and says of the third
// that there are too many.
type busy struct {
	Policies
	asked, revised atomic.Int64
}

func (b *busy) refuses() error {
	if b.asked.Add(1)%3 == 0 {
		return &client.Problem{Status: http.StatusTooManyRequests, Code: "too_many_requests"}
	}
	return nil
}

func (b *busy) Create(ctx context.Context, project uuid.UUID, d resource.Draft, calls ...client.Call) (p resource.Policy, err error) {
	if err := b.refuses(); err != nil {
		return p, err
	}
	return b.Policies.Create(ctx, project, d, calls...)
}

func (b *busy) Revise(ctx context.Context, project, id uuid.UUID, x resource.Patch, calls ...client.Call) (p resource.Policy, err error) {
	if err := b.refuses(); err != nil {
		return p, err
	}
	b.revised.Add(1)
	return b.Policies.Revise(ctx, project, id, x, calls...)
}

func (b *busy) Delete(ctx context.Context, project, id uuid.UUID, calls ...client.Call) error {
	if err := b.refuses(); err != nil {
		return err
	}
	return b.Policies.Delete(ctx, project, id, calls...)
}

// TestAPlaneThatTakesSoManyRequestsIsWaitedFor: what it refuses is asked again, and no
// other request is given up for it.
func TestAPlaneThatTakesSoManyRequestsIsWaitedFor(t *testing.T) {
	c, on := newCluster(t), startPlane(t)
	c.namespace("shop", nil)
	for i := range 40 {
		c.policy(networkPolicies, "shop", fmt.Sprintf("p-%d", i), `{"podSelector":{},"egress":[{}],"policyTypes":["Egress"]}`)
	}
	b := &busy{Policies: on.Policies}
	ctl := New(Options{
		Kubernetes: c.typed, Dynamic: c.dynamic, Nodes: on.Nodes, Policies: b, Project: project, Debounce: time.Millisecond, StatusEvery: time.Hour,
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- ctl.Run(ctx) }()
	eventually(t, "the plane is what the cluster says", func() bool { return (&running{ctl, nil}).synced() })
	require.Len(t, slugs(t, on), 82, "two of each, and what the rest is allowed by")
	require.Zero(t, b.revised.Load(), "each was written once")
	stop()
	require.NoError(t, <-ended)
}
