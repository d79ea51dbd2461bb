package controller

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

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

// TestANodeOfAnotherHandIsLeftAlone: one that somebody registered under a machine's name
// stays as it is, until he removes it.
func TestANodeOfAnotherHandIsLeftAlone(t *testing.T) {
	c, on := newCluster(t), startPlane(t)
	hand := map[string]string{"registered": "by-hand"}
	register := func(id string) {
		_, _, err := on.Nodes.Put(t.Context(), project, id, resource.Facts{Labels: hand, Addresses: []string{"192.0.2.9"}})
		require.NoError(t, err)
	}
	register("m-1")
	c.machine("m-1", "192.0.2.1")
	var logged safeText
	begin := func() *running {
		ctl := New(Options{
			Kubernetes: c.typed, Dynamic: c.dynamic, Nodes: on.Nodes, Policies: on.Policies, Project: project,
			Debounce: time.Millisecond, RoomEvery: 10 * time.Millisecond, Log: slog.New(slog.NewTextHandler(&logged, nil)),
		})
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- ctl.Run(ctx) }()
		r := &running{ctl, sync.OnceFunc(func() { stop(); require.NoError(t, <-ended) })}
		t.Cleanup(r.stop)
		eventually(t, "the plane is what the cluster says", r.synced)
		return r
	}
	first := begin()
	require.Equal(t, hand, nodes(t, on)["m-1"])
	register("m-2")
	c.machine("m-2", "192.0.2.2")
	c.machine("m-3", "192.0.2.3")
	eventually(t, "others are written", func() bool { return nodes(t, on)["m-3"] != nil })
	require.Equal(t, hand, nodes(t, on)["m-2"])
	eventually(t, "the log says so", func() bool { return strings.Contains(logged.String(), "node=m-2") })
	require.Equal(t, 1, strings.Count(logged.String(), "node=m-1"), "it says so once")

	require.NoError(t, on.Nodes.Delete(t.Context(), project, "m-1"))
	eventually(t, "it is ours when the other went", func() bool { return nodes(t, on)["m-1"]["machine/kubernetes-node"] == "m-1" })
	for _, gone := range []string{"m-2", "m-3"} {
		require.NoError(t, c.typed.CoreV1().Nodes().Delete(t.Context(), gone, metav1.DeleteOptions{}))
	}
	eventually(t, "ours goes with its machine", func() bool { return nodes(t, on)["m-3"] == nil })
	require.Equal(t, hand, nodes(t, on)["m-2"])
	first.stop()
	begin()
	require.Equal(t, hand, nodes(t, on)["m-2"])
	require.Contains(t, nodes(t, on), "m-1")
}

// safeText is text that several write.
type safeText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *safeText) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *safeText) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// TestAPodIsNotTheNodeOfAnother: of two pods whose names make one id the older is the node,
// and the other takes its place when it went.
func TestAPodIsNotTheNodeOfAnother(t *testing.T) {
	c, on := newCluster(t), startPlane(t)
	c.namespace("shop", nil)
	c.namespace("thief", nil)
	long := strings.Repeat("web-", 13)
	older, newer := podOf("shop", long+"1365097", "10.0.0.1", nil), podOf("thief", long+"483272", "10.0.0.2", nil)
	older.CreationTimestamp, newer.CreationTimestamp = metav1.Unix(1, 0), metav1.Unix(2, 0)
	id := string(translate.PodID("uid-of-x", "shop", older.Name))
	require.Equal(t, id, string(translate.PodID("uid-of-x", "thief", newer.Name)), "somebody looked for these names")
	is := func() string { return nodes(t, on)[id]["namespace:kubernetes.io/metadata.name"] }

	ctx, stop := context.WithTimeout(t.Context(), patient)
	defer stop()
	var text safeText
	opt := New(Options{
		Kubernetes: c.typed, Dynamic: c.dynamic, Nodes: on.Nodes, Policies: on.Policies, Project: project, Cluster: "uid-of-x",
		RoomEvery: time.Hour, Log: slog.New(slog.NewTextHandler(&text, nil)),
	}).opt
	v := newView(opt)
	w := newNodeWriter(opt, v)
	defer w.room.stop()
	ended := make(chan error, 1)
	go func() { ended <- v.run(ctx) }()
	keys := []string{"shop/" + older.Name, "thief/" + newer.Name}
	holds := func(n int) {
		eventually(t, "the watch has told of it", func() bool { return len(v.keys()) == n })
	}
	c.pod(older)
	c.pod(newer)
	require.True(t, v.wait(ctx))
	require.True(t, w.begin(ctx))
	require.Equal(t, "shop", is())
	require.NoError(t, w.some(ctx, keys))
	require.NoError(t, w.some(ctx, keys[1:]))
	require.Equal(t, "shop", is())
	require.Equal(t, 1, strings.Count(text.String(), "is left out"), text.String())
	require.Contains(t, text.String(), "object="+keys[1])

	// What goes takes nothing of the other with it.
	require.NoError(t, c.typed.CoreV1().Pods("thief").Delete(ctx, newer.Name, metav1.DeleteOptions{}))
	holds(1)
	require.NoError(t, w.some(ctx, keys[1:]))
	require.Equal(t, "shop", is())
	c.pod(newer)
	holds(2)
	require.NoError(t, c.typed.CoreV1().Pods("shop").Delete(ctx, older.Name, metav1.DeleteOptions{}))
	holds(1)
	require.NoError(t, w.some(ctx, keys))
	require.Equal(t, "thief", is())
	require.NoError(t, c.typed.CoreV1().Pods("thief").Delete(ctx, newer.Name, metav1.DeleteOptions{}))
	holds(0)
	require.NoError(t, w.some(ctx, keys))
	require.Empty(t, is())
	stop()
	require.NoError(t, <-ended)
}
