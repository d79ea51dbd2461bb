package controller

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
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

// rolledOut is a plane in which everything is applied that it has.
type rolledOut struct {
	Policies
	away bool // for writes
}

func (p *rolledOut) write() (r resource.Policy, err error) {
	if p.away {
		return r, errors.New("away")
	}
	return resource.Policy{ID: uuid.New(), HeadRevisionID: uuid.New()}, nil
}

func (p *rolledOut) Create(context.Context, uuid.UUID, resource.Draft, ...client.Call) (resource.Policy, error) {
	return p.write()
}

func (p *rolledOut) Revise(context.Context, uuid.UUID, uuid.UUID, resource.Patch, ...client.Call) (resource.Policy, error) {
	return p.write()
}

func (p *rolledOut) Delete(context.Context, uuid.UUID, uuid.UUID, ...client.Call) error {
	_, err := p.write()
	return err
}

func (p *rolledOut) Rollout(context.Context, uuid.UUID, uuid.UUID, int) (resource.Rollout, error) {
	return resource.Rollout{Desired: 1, Applied: 1}, nil
}

// What an object says now is in force nowhere while the plane has what it said before.
func TestARevisionThatThePlaneHasNotIsNotRealized(t *testing.T) {
	plane := &rolledOut{}
	w := newPolicyWriter(New(Options{Policies: plane}).opt, &view{})
	deny := []any{map[string]any{"action": "Deny", "to": []any{map[string]any{"nodes": map[string]any{}}}}}
	accept := []any{map[string]any{"action": "Accept", "to": []any{map[string]any{"nodes": map[string]any{}}}}}
	write := func(parts map[string]any) error {
		spec := map[string]any{"tier": "Admin", "priority": int64(1), "subject": map[string]any{"namespaces": map[string]any{}}}
		maps.Copy(spec, parts)
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": clusterPolicies.GroupVersion().String(), "kind": "ClusterNetworkPolicy", "spec": spec}}
		o.SetName("guard")
		todo := w.translate([]*unstructured.Unstructured{o})
		var all error
		for slug, body := range todo.drafts {
			all = errors.Join(all, w.write(t.Context(), slug, body))
		}
		for _, slug := range w.slugs() {
			if _, stays := todo.drafts[slug]; !stays && !todo.keep[slug] {
				all = errors.Join(all, w.remove(t.Context(), slug))
			}
		}
		return all
	}
	reasons := func() (all []string) {
		conditions, err := w.conditions(t.Context(), &w.reports()[0])
		require.NoError(t, err)
		for _, c := range conditions {
			all = append(all, c.Reason)
		}
		return all
	}
	inForce, pending := []string{"Accepted", "Realized"}, []string{"Pending", "Pending"}
	require.NoError(t, write(map[string]any{"egress": accept}))
	require.Equal(t, inForce, reasons())

	for _, revised := range []map[string]any{{"egress": deny}, {}} {
		plane.away = true
		require.Error(t, write(revised))
		require.Equal(t, pending, reasons())
		plane.away = false
		require.NoError(t, write(revised))
		require.Equal(t, inForce, reasons())
	}
}
