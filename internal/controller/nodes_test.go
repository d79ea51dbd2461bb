package controller

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	translate "github.com/edictdev/edict/internal/compiler/kubernetes"
)

// turns is a plane that lets a removal that hands nothing over wait for the node that is
// written beside it.
type turns struct {
	Nodes
	mu    sync.Mutex
	order []string
	came  chan struct{} // closed when a node was written
}

func (p *turns) note(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.order = append(p.order, what)
}

func (p *turns) Import(ctx context.Context, project uuid.UUID, lines io.Reader, calls ...client.Call) (resource.BatchResult, error) {
	res, err := p.Nodes.Import(ctx, project, lines, calls...)
	p.note("write")
	close(p.came)
	return res, err
}

func (p *turns) Delete(ctx context.Context, project uuid.UUID, id string, calls ...client.Call) error {
	if strings.HasPrefix(id, "waits") {
		select {
		case <-p.came:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	err := p.Nodes.Delete(ctx, project, id, calls...)
	name, _, _ := strings.Cut(id, "-")
	p.note("remove " + name)
	return err
}

// TestWhatGoesWaitsForNothingButAnAddress: a node whose address another pod has now is
// removed before that is written, and others beside it.
func TestWhatGoesWaitsForNothingButAnAddress(t *testing.T) {
	c, on := newCluster(t), startPlane(t)
	c.namespace("shop", nil)
	c.pod(podOf("shop", "hands", "10.0.0.1", nil))
	c.pod(podOf("shop", "waits", "10.0.0.2", nil))
	first := start(t, c, on, "one")
	eventually(t, "the plane is what the cluster says", first.synced)
	first.stop()

	ctx, stop := context.WithTimeout(t.Context(), patient)
	defer stop()
	plane := &turns{Nodes: on.Nodes, came: make(chan struct{})}
	opt := New(Options{Kubernetes: c.typed, Dynamic: c.dynamic, Nodes: plane, Policies: on.Policies, Project: project, Cluster: "uid-of-x"}).opt
	v := newView(opt)
	w := newNodeWriter(opt, v)
	ended := make(chan error, 1)
	go func() { ended <- v.run(ctx) }()
	require.True(t, v.wait(ctx))
	require.True(t, w.begin(ctx))
	require.Equal(t, 2, w.count())

	for _, name := range []string{"hands", "waits"} {
		require.NoError(t, c.typed.CoreV1().Pods("shop").Delete(ctx, name, metav1.DeleteOptions{}))
	}
	c.pod(podOf("shop", "takes", "10.0.0.1", nil))
	eventually(t, "the watch has told of it", func() bool {
		_, there := v.pod("shop/takes")
		return there && len(v.keys()) == 1
	})
	require.NoError(t, w.some(ctx, []string{"shop/hands", "shop/waits", "shop/takes"}))
	require.Equal(t, []string{"remove hands", "write", "remove waits"}, plane.order)
	require.Len(t, nodes(t, on), 1)
	require.Contains(t, nodes(t, on), string(translate.PodID("uid-of-x", "shop", "takes")))
	require.InDelta(t, 1, testutil.ToFloat64(opt.Metrics.nodes), 0, "what went is not counted")
	stop()
	require.NoError(t, <-ended)
}
