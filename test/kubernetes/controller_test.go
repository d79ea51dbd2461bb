package kubernetes

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	translate "github.com/edictdev/edict/internal/compiler/kubernetes"
)

// Kinds with a status, as they are asked for.
var (
	clusterPolicies  = schema.GroupVersionResource{Group: "policy.networking.k8s.io", Version: "v1beta1", Resource: "clusternetworkpolicies"}
	adminPolicies    = schema.GroupVersionResource{Group: "policy.networking.k8s.io", Version: "v1alpha1", Resource: "adminnetworkpolicies"}
	baselinePolicies = schema.GroupVersionResource{Group: "policy.networking.k8s.io", Version: "v1alpha1", Resource: "baselineadminnetworkpolicies"}
)

var getOptions metav1.GetOptions

// namespace makes one. Kubernetes itself gives it the label with its name.
func (c *cluster) namespace(name string, labels map[string]string) {
	c.t.Helper()
	_, err := c.typed.CoreV1().Namespaces().Create(c.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{})
	require.NoError(c.t, err)
}

// pod makes one, as a scheduler and a kubelet would go on with it: on a machine, running,
// with an address.
func (c *cluster) pod(namespace, name, ip string, labels map[string]string) {
	c.t.Helper()
	c.create(namespace, name, labels, false)
	c.runs(namespace, name, ip)
}

func (c *cluster) create(namespace, name string, labels map[string]string, hostNetwork bool) {
	c.t.Helper()
	_, err := c.typed.CoreV1().Pods(namespace).Create(c.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       corev1.PodSpec{NodeName: "m-1", HostNetwork: hostNetwork, Containers: []corev1.Container{{Name: "c", Image: "none"}}},
	}, metav1.CreateOptions{})
	require.NoError(c.t, err)
}

func (c *cluster) runs(namespace, name, ip string) {
	c.t.Helper()
	patch := fmt.Sprintf(`{"status":{"phase":"Running","podIP":%q,"podIPs":[{"ip":%[1]q}]}}`, ip)
	_, err := c.typed.CoreV1().Pods(namespace).Patch(c.t.Context(), name, "application/strategic-merge-patch+json", []byte(patch), metav1.PatchOptions{}, "status")
	require.NoError(c.t, err)
}

func (c *cluster) removePod(namespace, name string) {
	c.t.Helper()
	now := int64(0)
	require.NoError(c.t, c.typed.CoreV1().Pods(namespace).Delete(c.t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
}

func (c *cluster) machine(name, ip string, labels map[string]string) {
	c.t.Helper()
	n, err := c.typed.CoreV1().Nodes().Create(c.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{})
	require.NoError(c.t, err)
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}, {Type: corev1.NodeHostName, Address: name}}
	_, err = c.typed.CoreV1().Nodes().UpdateStatus(c.t.Context(), n, metav1.UpdateOptions{})
	require.NoError(c.t, err)
}

func (c *cluster) removePolicy(kind schema.GroupVersionResource, namespace, name string) {
	c.t.Helper()
	require.NoError(c.t, c.dynamic.Resource(kind).Namespace(namespace).Delete(c.t.Context(), name, metav1.DeleteOptions{}))
}

// conditions are those of an object's status.
func (c *cluster) conditions(kind schema.GroupVersionResource, name string) (have []metav1.Condition) {
	c.t.Helper()
	o, err := c.dynamic.Resource(kind).Get(c.t.Context(), name, metav1.GetOptions{})
	require.NoError(c.t, err)
	list, _, err := unstructured.NestedSlice(o.Object, "status", "conditions")
	require.NoError(c.t, err)
	for _, x := range list {
		var one metav1.Condition
		require.NoError(c.t, runtime.DefaultUnstructuredConverter.FromUnstructured(x.(map[string]any), &one))
		have = append(have, one)
	}
	return have
}

// says: an object's condition has a status, and these words in its reason and message.
func (c *cluster) says(kind schema.GroupVersionResource, name, condition string, status metav1.ConditionStatus, words ...string) bool {
	c.t.Helper()
	got := apimeta.FindStatusCondition(c.conditions(kind, name), condition)
	return got != nil && got.Status == status && !slices.ContainsFunc(words, func(w string) bool {
		return !strings.Contains(got.Reason+" "+got.Message, w)
	})
}

// small is what the cluster of the first test has.
const small = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: shop, name: web}
spec:
  podSelector: {matchLabels: {app: web}}
  ingress:
  - from: [{podSelector: {matchLabels: {app: db}}}]
    ports: [{port: 80}, {port: named}]
---
apiVersion: policy.networking.k8s.io/v1beta1
kind: ClusterNetworkPolicy
metadata: {name: guard}
spec:
  tier: Admin
  priority: 1
  subject: {namespaces: {matchLabels: {team: one}}}
  egress:
  - {action: Deny, to: [{nodes: {}}]}
---
apiVersion: policy.networking.k8s.io/v1beta1
kind: ClusterNetworkPolicy
metadata: {name: names}
spec:
  tier: Baseline
  priority: 7
  subject: {namespaces: {}}
  egress:
  - {action: Accept, to: [{domainNames: [example.com]}]}
  - {action: Deny, to: [{namespaces: {matchLabels: {team: two}}}]}
---
apiVersion: policy.networking.k8s.io/v1alpha1
kind: AdminNetworkPolicy
metadata: {name: admin}
spec:
  priority: 2
  subject: {namespaces: {matchLabels: {team: one}}}
  ingress:
  - {action: Deny, from: [{namespaces: {matchLabels: {team: two}}}]}
  - {action: Allow, from: [{namespaces: {}}], ports: [{namedPort: web}]}
---
apiVersion: policy.networking.k8s.io/v1alpha1
kind: BaselineAdminNetworkPolicy
metadata: {name: default}
spec:
  subject: {namespaces: {}}
  ingress:
  - {action: Deny, from: [{namespaces: {matchLabels: {team: two}}}]}
`

// TestAControllerOnARealAPIServer holds what docs/kubernetes.md promises against an API
// server that defaults, refuses and forbids, under the rights that the chart gives.
func TestAControllerOnARealAPIServer(t *testing.T) {
	c := newCluster(t)
	p := newPlane(t, "--durability", "relaxed")
	kubeconfig := c.account()
	c.namespace("shop", map[string]string{"team": "one"})
	c.namespace("other", map[string]string{"team": "two"})
	c.machine("m-1", "192.0.2.1", map[string]string{"zone": "a"})
	c.pod("shop", "web-0", "10.0.0.1", map[string]string{"app": "web"})
	c.pod("shop", "db-0", "10.0.0.2", map[string]string{"app": "db"})
	c.create("shop", "pending", nil, false)
	c.create("shop", "on-the-host", nil, true)
	c.runs("shop", "on-the-host", "192.0.2.1")
	c.apply([]byte(small))
	system, err := c.typed.CoreV1().Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{})
	require.NoError(t, err)
	owner := string(system.UID)
	id := func(namespace, name string) string { return string(translate.PodID(owner, namespace, name)) }

	often := []string{"--status-every", "300ms", "--debounce", "20ms"}
	first := p.control(kubeconfig, "one", often...)
	eventually(t, "the first controller writes", first.synced)
	second := p.control(kubeconfig, "two", often...)
	eventually(t, "the second waits", func() bool { _, ready := second.get("/readyz"); return ready })
	require.Zero(t, second.metric("edict_controller_leading"), "one writes")

	t.Run("the plane is what the cluster says", func(t *testing.T) {
		got := p.nodes()
		require.Len(t, got, 3, "two pods and a machine: no node of what has no address or its machine's")
		web := got[id("shop", "web-0")]
		require.Equal(t, map[string]string{
			"app": "web", "namespace/team": "one", "namespace:kubernetes.io/metadata.name": "shop", translate.OwnerKey: owner,
		}, web.Labels)
		require.Equal(t, []string{"10.0.0.1"}, web.Addresses)
		require.Equal(t, owner, got["m-1"].Labels[translate.OwnerKey])
		require.Equal(t, []string{
			"anp--admin--ingress", "banp--default--ingress", "cnp--guard--egress", "cnp--names--egress",
			"kubernetes--default--egress", "kubernetes--default--ingress", "np--shop--web--ingress", "np--shop--web--ingress-isolate",
		}, p.slugs())
		verdict, err := p.Datapath.Explain(t.Context(), id("shop", "web-0"), flow("ingress", id("shop", "db-0"), 80))
		require.NoError(t, err)
		require.Equal(t, "allow", verdict.Verdict)
		verdict, err = p.Datapath.Explain(t.Context(), id("shop", "web-0"), flow("ingress", id("shop", "db-0"), 81))
		require.NoError(t, err)
		require.Equal(t, "deny", verdict.Verdict)
	})
	t.Run("conditions say what became of a policy", func(t *testing.T) {
		eventually(t, "all of it is accepted", func() bool {
			return c.says(clusterPolicies, "guard", "Accepted", "True", "Accepted", "all of it") && c.says(clusterPolicies, "guard", "Realized", "False", "Pending", "0 of 3 nodes")
		})
		eventually(t, "what is left out is named", func() bool {
			return c.says(clusterPolicies, "names", "Accepted", "True", "NotExpressed", "domainNames") && c.says(adminPolicies, "admin", "Accepted", "True", "NotExpressed", "port by name")
		})
		eventually(t, "the baseline too", func() bool { return c.says(baselinePolicies, "default", "Accepted", "True") })
		p.report(t, id("shop", "web-0"))
		eventually(t, "one of three: two pods, and the machine that the rule is about", func() bool { return c.says(clusterPolicies, "guard", "Realized", "False", "1 of 3 nodes") })
		p.report(t, id("shop", "db-0"))
		p.report(t, "m-1")
		eventually(t, "realized", func() bool { return c.says(clusterPolicies, "guard", "Realized", "True", "Realized", "3 of 3 nodes") })
		eventually(t, "an Event beside a NetworkPolicy", func() bool {
			events, err := c.typed.EventsV1().Events("shop").List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			return len(events.Items) == 1 && events.Items[0].Reason == "NotExpressed" && strings.Contains(events.Items[0].Note, "a port by name")
		})
	})
	t.Run("what changes and what goes", func(t *testing.T) {
		c.runs("shop", "pending", "10.0.0.3")
		eventually(t, "a pod that got its address", func() bool { _, there := p.nodes()[id("shop", "pending")]; return there })
		c.removePod("shop", "pending")
		eventually(t, "a pod that went", func() bool { _, there := p.nodes()[id("shop", "pending")]; return !there })
		c.removePolicy(adminPolicies, "", "admin")
		c.removePolicy(baselinePolicies, "", "default")
		eventually(t, "policies that went", func() bool {
			return !slices.ContainsFunc(p.slugs(), func(s string) bool { return strings.HasPrefix(s, "anp--") || strings.HasPrefix(s, "banp--") })
		})
	})
	before := p.head()
	first.kill()
	t.Run("another writes when the first is killed, and only what went meanwhile", func(t *testing.T) {
		c.removePod("shop", "db-0")
		c.removePolicy(clusterPolicies, "", "names")
		eventually(t, "the second has the Lease", second.synced)
		require.Equal(t, before+2, p.head(), "a node and a policy are removed")
		require.NotContains(t, p.nodes(), id("shop", "db-0"))
		require.NotContains(t, p.slugs(), "cnp--names--egress")
	})
	before = p.head()
	second.stop()
	t.Run("a restart writes nothing", func(t *testing.T) {
		third := p.control(kubeconfig, "three", often...)
		eventually(t, "the third writes", third.synced)
		require.Equal(t, before, p.head())
		require.False(t, third.printed("forbidden"), "the chart's rights suffice:\n%s", third.tail())
		// So does the restart of an API server, which forbids everything for a moment:
		// watches are begun again.
		c.api.kill()
		c.start(asset(t, "kube-apiserver"))
		c.pod("shop", "web-1", "10.0.0.9", map[string]string{"app": "web"})
		eventually(t, "a pod that came later", func() bool { _, there := p.nodes()[id("shop", "web-1")]; return there })
		require.Equal(t, before+1, p.head())
		third.stop()
	})
	for _, one := range []*controller{first, second} {
		require.False(t, one.printed("forbidden"), "the chart's rights suffice:\n%s", one.tail())
	}
}

// report has a node say that it has applied the state that the plane has for it.
func (p *plane) report(t *testing.T, node string) {
	t.Helper()
	state, err := p.Nodes.State(t.Context(), node, client.StateQuery{})
	require.NoError(t, err)
	var is resource.NodeState
	require.NoError(t, json.Unmarshal(state.Body, &is))
	require.NotNil(t, is.Policy)
	require.NoError(t, p.Nodes.ReportApplied(t.Context(), node, resource.Applied{EventID: state.EventID.String(), Fingerprint: is.Policy.Fingerprint}))
}
