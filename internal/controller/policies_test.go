package controller

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	translate "github.com/edictdev/edict/internal/compiler/kubernetes"
)

// networkPolicy is an object of a namespace, as a watch tells of it.
func networkPolicy(namespace, name string, made time.Time, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "spec": spec}}
	o.SetNamespace(namespace)
	o.SetName(name)
	o.SetCreationTimestamp(metav1.NewTime(made))
	return o
}

// TestAPolicyOfOneNamespaceReplacesNoneOfAnother: of two names whose slug is one, that of the
// older object counts, and the other is held, whatever becomes of the older.
func TestAPolicyOfOneNamespaceReplacesNoneOfAnother(t *testing.T) {
	team := strings.Repeat("team-", 10)
	closed, open := map[string]any{"podSelector": map[string]any{}, "ingress": []any{map[string]any{"ports": []any{map[string]any{"port": int64(80)}}}}}, map[string]any{"podSelector": map[string]any{}, "ingress": []any{map[string]any{}}}
	older := networkPolicy(team+"ab", "p-11258", time.Unix(1, 0), closed)
	newer := networkPolicy(team+"aa", "p-153351", time.Unix(2, 0), open)
	own := translate.Slugs("NetworkPolicy", older.GetNamespace(), older.GetName())
	require.Equal(t, own[0], translate.Slugs("NetworkPolicy", newer.GetNamespace(), newer.GetName())[0], "somebody looked for these names")

	var logged strings.Builder
	w := newPolicyWriter(New(Options{Log: slog.New(slog.NewTextHandler(&logged, nil))}).opt, &view{})
	for range 2 {
		got := w.translate([]*unstructured.Unstructured{newer, older})
		require.ElementsMatch(t, slices.Concat(own[:2], []string{"kubernetes--default--egress", "kubernetes--default--ingress"}), slices.Collect(maps.Keys(got.drafts)))
		require.Contains(t, got.drafts[own[0]], `"from":80`, "what the older allows, and no more")
		require.False(t, got.keep[own[0]])
	}
	for _, r := range w.reports() {
		require.Equal(t, r.object == newer, r.wider(), r.reasons())
	}
	require.Equal(t, 1, strings.Count(logged.String(), "NetworkPolicy "+newer.GetNamespace()+"/"+newer.GetName()+" is left out"), logged.String())

	// The older says nothing of that direction any more: nobody holds what the plane has of it.
	older = networkPolicy(older.GetNamespace(), older.GetName(), time.Unix(1, 0), map[string]any{"podSelector": map[string]any{}, "policyTypes": []any{"Egress"}})
	got := w.translate([]*unstructured.Unstructured{newer, older})
	require.NotContains(t, got.drafts, own[0])
	require.False(t, got.keep[own[0]])
	// Nobody takes it while the older cannot be read.
	older = networkPolicy(older.GetNamespace(), older.GetName(), time.Unix(1, 0), map[string]any{"podSelector": map[string]any{}, "policyTypes": []any{"Sideways"}})
	got = w.translate([]*unstructured.Unstructured{newer, older})
	require.NotContains(t, got.drafts, own[0])
	require.True(t, got.keep[own[0]], "it is held itself")
	// Once it went the name is free.
	require.Contains(t, w.translate([]*unstructured.Unstructured{newer}).drafts, own[0])
}
