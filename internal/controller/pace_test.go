package controller

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/test/contract"
)

// busy is a plane that takes two of three requests about policies, and says of the third
// that there are too many.
type busy struct {
	Policies
	asked, revised atomic.Int64
}

func (b *busy) refuses() error {
	if b.asked.Add(1)%3 == 0 {
		return &client.Problem{Status: http.StatusTooManyRequests, Code: tooManyRequests}
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

// TestAQuotaKeepsNothingElseFromBeingWritten: what a project's quota has no room for is said
// of its object, others go on, and once there is room it is written without a change in the
// cluster.
func TestAQuotaKeepsNothingElseFromBeingWritten(t *testing.T) {
	c, on := newCluster(t), startPlane(t)
	_, err := on.Projects.SetQuota(t.Context(), project, resource.Quota{Policies: 3, Nodes: 2})
	require.NoError(t, err)
	c.namespace("shop", nil)
	ctl := New(Options{
		Kubernetes: c.typed, Dynamic: c.dynamic, Nodes: on.Nodes, Policies: on.Policies, Project: project,
		Debounce: time.Millisecond, StatusEvery: 5 * time.Millisecond, RoomEvery: 10 * time.Millisecond, Metrics: NewMetrics(nil),
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- ctl.Run(ctx) }()
	eventually(t, "the plane is what the cluster says", func() bool { return (&running{ctl, nil}).synced() })
	require.Len(t, slugs(t, on), 2, "what the rest is allowed by")
	for i := range 3 {
		c.pod(podOf("shop", fmt.Sprintf("web-%d", i), fmt.Sprintf("10.0.0.%d", i+1), nil))
		c.policy(clusterPolicies, "", fmt.Sprintf("guard-%d", i), fmt.Sprintf(`{"tier":"Admin","priority":%d,"subject":{"namespaces":{}},"egress":[{"action":"Deny","to":[{"nodes":{}}]}]}`, i))
	}
	held := func() (n int) {
		list, err := c.dynamic.Resource(clusterPolicies).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		for _, o := range list.Items {
			if text := fmt.Sprint(o.Object["status"]); strings.Contains(text, "Held") && strings.Contains(text, "has a quota: it has 3 policies") {
				n++
			}
		}
		return n
	}
	eventually(t, "the conditions of what has no room say so", func() bool { return held() == 2 })
	eventually(t, "all is written that has room", func() bool { return len(slugs(t, on)) == 3 && len(nodes(t, on)) == 2 })
	for _, kind := range []string{"node", "policy"} {
		eventually(t, "it is counted", func() bool { return testutil.ToFloat64(ctl.opt.Metrics.leftOut.WithLabelValues(kind)) >= 1 })
	}

	_, err = on.Projects.SetQuota(t.Context(), project, resource.Quota{})
	require.NoError(t, err)
	eventually(t, "there is room", func() bool { return len(slugs(t, on)) == 5 && len(nodes(t, on)) == 3 && held() == 0 })
	stop()
	require.NoError(t, <-ended)
}

// TestOnlyTooManyRequestsAreWaitedFor: other refusals with the same status are answers.
func TestOnlyTooManyRequestsAreWaitedFor(t *testing.T) {
	opt := New(Options{}).opt
	doc, err := contract.Document()
	require.NoError(t, err)
	for _, code := range ofThePolicy {
		documented(t, doc, code)
	}
	for code, waits := range map[string]bool{
		tooManyRequests: true, "too_many_failures": false, "project_over_share": false, "quota_exceeded": false,
	} {
		t.Run(code, func(t *testing.T) {
			documented(t, doc, code)
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				err := opt.paced(t.Context(), func() error {
					if asked++; asked == 3 {
						return nil
					}
					return &client.Problem{Status: http.StatusTooManyRequests, Code: code}
				})
				require.Equal(t, waits, err == nil)
				require.Equal(t, waits, asked == 3)
			})
		})
	}
}

// documented wants a code to be one that the plane answers with.
func documented(t *testing.T, doc []byte, code string) {
	t.Helper()
	require.Contains(t, string(doc), "`"+code+"`")
}

func TestWhatHasNoRoomChangesTogetherUnlessItIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changed []string
		l := later{after: time.Minute, changed: func(key string) { changed = append(changed, key) }}
		l.note("a")
		time.Sleep(30 * time.Second)
		l.note("b")
		time.Sleep(30 * time.Second)
		synctest.Wait()
		require.ElementsMatch(t, []string{"a", "b"}, changed)
		l.note("c")
		l.stop()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.Len(t, changed, 2, "nothing changes that nobody waits for any more")
	})
}

// TestAPolicyThatIsRolledOutKeepsNothingElseFromBeingWritten: an operator may roll a revision
// out by himself, and then the plane takes no other of that policy until he is done.
func TestAPolicyThatIsRolledOutKeepsNothingElseFromBeingWritten(t *testing.T) {
	c, on := newCluster(t), startPlane(t)
	spec := func(priority int) string {
		return fmt.Sprintf(`{"tier":"Admin","priority":%d,"subject":{"namespaces":{}},"egress":[{"action":"Deny","to":[{"nodes":{}}]}]}`, priority)
	}
	c.policy(clusterPolicies, "", "guard", spec(1))
	c.policy(clusterPolicies, "", "other", spec(3))
	ctl := New(Options{
		Kubernetes: c.typed, Dynamic: c.dynamic, Nodes: on.Nodes, Policies: on.Policies, Project: project,
		Debounce: time.Millisecond, StatusEvery: time.Hour, RoomEvery: 10 * time.Millisecond,
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- ctl.Run(ctx) }()
	eventually(t, "the plane is what the cluster says", func() bool { return (&running{ctl, nil}).synced() })
	guard, _, err := on.Policies.Named(t.Context(), project, "cnp--guard--egress")
	require.NoError(t, err)
	guard, err = on.Policies.Get(t.Context(), project, guard.ID)
	require.NoError(t, err)
	_, err = on.Policies.Stage(t.Context(), project, guard.ID, resource.Preview{Selector: guard.Head.Selector, Order: guard.Order, Rules: append(guard.Head.Rules, guard.Head.Rules...)})
	require.NoError(t, err)
	_, err = on.Policies.Promote(t.Context(), project, guard.ID, resource.Promotion{Waves: []string{"canary=true"}})
	require.NoError(t, err)

	o, err := c.dynamic.Resource(clusterPolicies).Get(t.Context(), "guard", metav1.GetOptions{})
	require.NoError(t, err)
	require.NoError(t, unstructured.SetNestedField(o.Object, int64(2), "spec", "priority"))
	_, err = c.dynamic.Resource(clusterPolicies).Update(t.Context(), o, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.NoError(t, c.dynamic.Resource(clusterPolicies).Delete(t.Context(), "other", metav1.DeleteOptions{}))
	eventually(t, "the other goes", func() bool { return !slices.Contains(slugs(t, on), "cnp--other--egress") })
	_, err = on.Policies.Abort(t.Context(), project, guard.ID, resource.Abort{})
	require.NoError(t, err)
	eventually(t, "it is written when the rollout has ended", func() bool {
		now, err := on.Policies.Get(t.Context(), project, guard.ID)
		require.NoError(t, err)
		return now.HeadRevisionID != guard.HeadRevisionID
	})
	stop()
	require.NoError(t, <-ended)
}
