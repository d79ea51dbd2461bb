package controller

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestAStatusIsNoChangeOfAPolicy: what is written back of a policy is no reason to
// translate all of them again.
func TestAStatusIsNoChangeOfAPolicy(t *testing.T) {
	c := newCluster(t)
	c.policy(clusterPolicies, "", "guard", `{"tier":"Admin","priority":1,"subject":{"namespaces":{}},"egress":[{"action":"Deny","to":[{"nodes":{}}]}]}`)
	v := newView(New(Options{Kubernetes: c.typed, Dynamic: c.dynamic}).opt)
	var times atomic.Int64
	v.policed = func() { times.Add(1) }
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- v.run(ctx) }()
	require.True(t, v.wait(ctx))
	eventually(t, "it is there", func() bool { return times.Load() == 1 })

	guard := func() *unstructured.Unstructured {
		o, err := c.dynamic.Resource(clusterPolicies).Get(t.Context(), "guard", metav1.GetOptions{})
		require.NoError(t, err)
		return o
	}
	o := guard()
	require.NoError(t, unstructured.SetNestedSlice(o.Object, []any{map[string]any{"type": "Accepted"}}, "status", "conditions"))
	_, err := c.dynamic.Resource(clusterPolicies).UpdateStatus(t.Context(), o, metav1.UpdateOptions{})
	require.NoError(t, err)
	eventually(t, "its status is seen", func() bool {
		now, there := v.current(o)
		_, has := now.Object["status"]
		return there && has
	})
	o = guard()
	require.NoError(t, unstructured.SetNestedField(o.Object, int64(2), "spec", "priority"))
	_, err = c.dynamic.Resource(clusterPolicies).Update(t.Context(), o, metav1.UpdateOptions{})
	require.NoError(t, err)
	eventually(t, "what it says changed", func() bool { return times.Load() > 1 })
	require.EqualValues(t, 2, times.Load(), "once for the policy and once for what it says")

	require.NoError(t, c.dynamic.Resource(clusterPolicies).Delete(t.Context(), "guard", metav1.DeleteOptions{}))
	eventually(t, "it went", func() bool { return times.Load() == 3 })
	_, there := v.current(o)
	require.False(t, there)
	stop()
	require.NoError(t, <-ended)
}
