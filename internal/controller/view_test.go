package controller

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	discovery "k8s.io/client-go/discovery/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestAStatusIsNoChangeOfAPolicy: what is written back of a policy is no reason to
// translate all of them again.
func TestAStatusIsNoChangeOfAPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.policy(clusterPolicies, "", "guard", `{"tier":"Admin","priority":1,"subject":{"namespaces":{}},"egress":[{"action":"Deny","to":[{"nodes":{}}]}]}`)
		v := newView(New(Options{Kubernetes: c.typed, Dynamic: c.dynamic}).opt)
		times := 0
		v.policed = func() { times++ }
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- v.run(ctx) }()
		require.True(t, v.wait(ctx))
		// heard is how often a change was heard of, once everything that happened was.
		heard := func() int {
			synctest.Wait()
			return times
		}
		require.Equal(t, 1, heard(), "it is there")

		policies := c.dynamic.Resource(clusterPolicies)
		o, err := policies.Get(ctx, "guard", metav1.GetOptions{})
		require.NoError(t, err)
		require.NoError(t, unstructured.SetNestedSlice(o.Object, []any{map[string]any{"type": "Accepted"}}, "status", "conditions"))
		o, err = policies.UpdateStatus(ctx, o, metav1.UpdateOptions{})
		require.NoError(t, err)
		require.Equal(t, 1, heard(), "a status is none")
		now, there := v.current(o)
		require.True(t, there)
		require.Contains(t, now.Object, "status", "though it is seen")

		require.NoError(t, unstructured.SetNestedField(o.Object, int64(2), "spec", "priority"))
		_, err = policies.Update(ctx, o, metav1.UpdateOptions{})
		require.NoError(t, err)
		require.Equal(t, 2, heard(), "what it says changed")

		require.NoError(t, policies.Delete(ctx, "guard", metav1.DeleteOptions{}))
		require.Equal(t, 3, heard(), "it went")
		_, there = v.current(o)
		require.False(t, there)
		stop()
		require.NoError(t, <-ended)
	})
}

// TestAKindOfWhichAnotherVersionIsServedIsReadOnce: as when its definition is brought up to
// date under a running controller.
func TestAKindOfWhichAnotherVersionIsServedIsReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		const spec = `{"tier":"Admin","priority":1,"subject":{"namespaces":{}},"egress":[{"action":"Deny","to":[{"nodes":{}}]}]}`
		earlier := policyKinds[2]
		discovered := c.typed.Discovery().(*discovery.FakeDiscovery)
		all := discovered.Resources
		var served atomic.Value
		only := func(version string) { served.Store(version) }
		c.typed.PrependReactor("get", "resource", func(clienttesting.Action) (bool, runtime.Object, error) { // by who asks
			discovered.Resources = slices.DeleteFunc(slices.Clone(all), func(l *metav1.APIResourceList) bool {
				return strings.HasPrefix(l.GroupVersion, policyGroup) && l.GroupVersion != policyGroup+"/"+served.Load().(string)
			})
			return false, nil, nil
		})
		only(earlier.Version)
		c.policy(earlier, "", "guard", spec)
		v := newView(New(Options{Kubernetes: c.typed, Dynamic: c.dynamic}).opt)
		var times atomic.Int64
		v.policed = func() { times.Add(1) }
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- v.run(ctx) }()
		require.True(t, v.wait(ctx))
		versions := func() (all []string) {
			synctest.Wait()
			objects, whole := v.objects()
			require.True(t, whole)
			for _, o := range objects {
				all = append(all, o.GroupVersionKind().Version)
			}
			return all
		}
		require.Equal(t, []string{earlier.Version}, versions())

		c.policy(clusterPolicies, "", "guard", spec)
		only(clusterPolicies.Version)
		time.Sleep(lookAgain + time.Second)
		require.Equal(t, []string{clusterPolicies.Version}, versions())
		require.NoError(t, c.dynamic.Resource(clusterPolicies).Delete(ctx, "guard", metav1.DeleteOptions{}))
		require.Empty(t, versions(), "the earlier version tells of nothing any more")

		// And back, as when the later definition did not do.
		c.policy(clusterPolicies, "", "later", spec)
		require.Equal(t, []string{clusterPolicies.Version}, versions())
		only(earlier.Version)
		time.Sleep(lookAgain + time.Second)
		require.Equal(t, []string{earlier.Version}, versions())
		require.NoError(t, c.dynamic.Resource(earlier).Delete(ctx, "guard", metav1.DeleteOptions{}))
		require.Empty(t, versions())
		require.NoError(t, c.dynamic.Resource(clusterPolicies).Delete(ctx, "later", metav1.DeleteOptions{}))
		told := times.Load()
		only(clusterPolicies.Version)
		time.Sleep(lookAgain + time.Second)
		require.Empty(t, versions())
		require.Greater(t, times.Load(), told, "what was of the other version may go")
		stop()
		require.NoError(t, <-ended)
	})
}
