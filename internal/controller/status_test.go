package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	translate "github.com/edictdev/edict/internal/compiler/kubernetes"
)

// TestAnEventIsMadeAgainWhenItWentOut: the API server removes Events after an hour, and a
// policy that cannot be expressed stays one. Its name is one that the API server takes.
func TestAnEventIsMadeAgainWhenItWentOut(t *testing.T) {
	c := newCluster(t)
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy"}}
	o.SetNamespace("shop")
	o.SetName(strings.Repeat("a", 199) + "-policy")
	w := newPolicyWriter(New(Options{Kubernetes: c.typed, Dynamic: c.dynamic}).opt, newView(Options{Kubernetes: c.typed}))
	about := &reported{object: o, items: []translate.Item{{Reason: "a port by name"}}}
	events := func() (names []string) {
		list, err := c.typed.EventsV1().Events("shop").List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		for _, e := range list.Items {
			names = append(names, e.Name)
		}
		return names
	}
	require.NoError(t, w.tellEvent(t.Context(), about))
	require.Len(t, events(), 1)
	require.Empty(t, validation.IsDNS1123Subdomain(events()[0]))

	require.NoError(t, c.typed.EventsV1().Events("shop").Delete(t.Context(), events()[0], metav1.DeleteOptions{}))
	require.NoError(t, w.tellEvent(t.Context(), about))
	require.Empty(t, events(), "it was made a moment ago")
	about.at = about.at.Add(-time.Hour)
	require.NoError(t, w.tellEvent(t.Context(), about))
	require.Len(t, events(), 1)
	about.at = about.at.Add(-time.Hour)
	require.NoError(t, w.tellEvent(t.Context(), about), "it is there still")
	require.Len(t, events(), 1)
}

// What the plane has not taken yet, as while it is away, is in force nowhere.
func TestAPolicyThatThePlaneHasNotIsNotRealized(t *testing.T) {
	w := newPolicyWriter(Options{}, &view{})
	about := &reported{object: &unstructured.Unstructured{Object: map[string]any{}}, slugs: []string{"cnp--web--ingress"}}
	conditions, err := w.conditions(t.Context(), about)
	require.NoError(t, err)
	for _, c := range conditions {
		require.Equal(t, metav1.ConditionFalse, c.Status, c.Type)
		require.Equal(t, "Pending", c.Reason)
	}
}
