package controller

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	discovery "k8s.io/client-go/discovery/fake"
	dynamic "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	translate "github.com/edictdev/edict/internal/compiler/kubernetes"
	"github.com/edictdev/edict/internal/test/binary"
)

var project = uuid.MustParse("00000000-0000-4000-8000-000000000000")

var (
	networkPolicies = policyKinds[0]
	clusterPolicies = policyKinds[1]
)

// cluster is client-go's fake of an API server. It keeps what it is told, and neither
// defaults nor refuses anything, as a real one does.
type cluster struct {
	t       *testing.T
	typed   *fake.Clientset
	dynamic *dynamic.FakeDynamicClient
}

func newCluster(t *testing.T) *cluster {
	lists := map[schema.GroupVersionResource]string{}
	resources := map[string][]metav1.APIResource{}
	for _, k := range policyKinds {
		kind := map[string]string{
			"networkpolicies": "NetworkPolicy", "clusternetworkpolicies": "ClusterNetworkPolicy",
			"adminnetworkpolicies": "AdminNetworkPolicy", "baselineadminnetworkpolicies": "BaselineAdminNetworkPolicy",
		}[k.Resource]
		lists[k] = kind + "List"
		group := k.GroupVersion().String()
		resources[group] = append(resources[group], metav1.APIResource{Name: k.Resource, Kind: kind})
	}
	c := &cluster{t, fake.NewClientset(), dynamic.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists)}
	for _, group := range slices.Sorted(maps.Keys(resources)) {
		served := c.typed.Discovery().(*discovery.FakeDiscovery)
		served.Resources = append(served.Resources, &metav1.APIResourceList{GroupVersion: group, APIResources: resources[group]})
	}
	c.namespace("kube-system", nil)
	return c
}

func (c *cluster) namespace(name string, labels map[string]string) {
	all := map[string]string{"kubernetes.io/metadata.name": name}
	maps.Copy(all, labels)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid-of-" + "x", Labels: all}}
	_, err := c.typed.CoreV1().Namespaces().Create(c.t.Context(), ns, metav1.CreateOptions{})
	require.NoError(c.t, err)
}

func podOf(namespace, name, ip string, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: ip}}},
	}
}

func (c *cluster) pod(p *corev1.Pod) {
	_, err := c.typed.CoreV1().Pods(p.Namespace).Create(c.t.Context(), p, metav1.CreateOptions{})
	require.NoError(c.t, err)
}

func (c *cluster) machine(name, ip string) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": "a"}}}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}, {Type: corev1.NodeHostName, Address: name}}
	_, err := c.typed.CoreV1().Nodes().Create(c.t.Context(), n, metav1.CreateOptions{})
	require.NoError(c.t, err)
}

// policy creates a policy of a kind, with a spec as JSON.
func (c *cluster) policy(kind schema.GroupVersionResource, namespace, name, spec string) {
	o := &unstructured.Unstructured{}
	doc := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"namespace":%q,"name":%q,"uid":"u-%[4]s","generation":1},"spec":%s}`,
		kind.GroupVersion().String(), map[bool]string{true: "NetworkPolicy", false: "ClusterNetworkPolicy"}[namespace != ""], namespace, name, spec)
	if namespace == "" {
		doc = strings.Replace(doc, `"namespace":"",`, "", 1)
	}
	require.NoError(c.t, o.UnmarshalJSON([]byte(doc)))
	_, err := c.dynamic.Resource(kind).Namespace(namespace).Create(c.t.Context(), o, metav1.CreateOptions{})
	require.NoError(c.t, err)
}

// startPlane runs a plane for as long as the test takes.
func startPlane(t *testing.T) *client.Client {
	p := binary.Serve(t, "--durability", "relaxed", "--nats-listen", "none")
	c, err := client.New(p.URL, client.Options{})
	require.NoError(t, err)
	return c
}

// running is a controller at work.
type running struct {
	*Controller
	stop func()
}

func start(t *testing.T, c *cluster, on *client.Client, name string) *running {
	ctl := New(Options{
		Kubernetes: c.typed, Dynamic: c.dynamic, Nodes: on.Nodes, Policies: on.Policies, Project: project,
		LeaseNamespace: "edict", LeaseName: "controller", Name: name, Debounce: time.Millisecond, StatusEvery: 50 * time.Millisecond, ReadEvery: 200 * time.Millisecond,
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- ctl.Run(ctx) }()
	r := &running{ctl, nil}
	r.stop = func() {
		cancel()
		if err, open := <-ended; open {
			require.NoError(t, err)
			close(ended)
		}
	}
	t.Cleanup(r.stop)
	return r
}

const patient = 30 * time.Second

func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	require.Eventually(t, so, patient, 5*time.Millisecond, what)
}

// nodes are the plane's, id → labels.
func nodes(t *testing.T, c *client.Client) map[string]map[string]string {
	all := map[string]map[string]string{}
	for n, err := range c.Nodes.All(t.Context(), project, "") {
		require.NoError(t, err)
		all[n.ID] = n.Labels
	}
	return all
}

func slugs(t *testing.T, c *client.Client) (all []string) {
	for p, err := range c.Policies.All(t.Context(), project) {
		require.NoError(t, err)
		all = append(all, p.Slug)
	}
	slices.Sort(all)
	return all
}

func (r *running) synced() bool { return r.leading.Load() && r.Ready() == nil }

func TestAPlaneIsWhatTheClusterSays(t *testing.T) {
	c, on := newCluster(t), startPlane(t)
	c.namespace("shop", map[string]string{"team": "one"})
	c.machine("m-1", "192.0.2.1")
	c.pod(podOf("shop", "web-0", "10.0.0.1", map[string]string{"app": "web"}))
	host := podOf("shop", "on-the-host", "192.0.2.1", nil)
	host.Spec.HostNetwork = true
	c.pod(host)
	ended := podOf("shop", "ended", "10.0.0.1", nil)
	ended.Status.Phase = corev1.PodSucceeded
	c.pod(ended)
	c.policy(networkPolicies, "shop", "web", `{"podSelector":{"matchLabels":{"app":"web"}},"ingress":[{"ports":[{"port":80},{"port":"named"}]}]}`)
	c.policy(clusterPolicies, "", "guard", `{"tier":"Admin","priority":1,"subject":{"namespaces":{}},"egress":[{"action":"Deny","to":[{"nodes":{}}]}]}`)
	own := string(translate.PodID("uid-of-x", "shop", "web-0"))

	r := start(t, c, on, "one")
	eventually(t, "the plane is what the cluster says", r.synced)
	got := nodes(t, on)
	require.Equal(t, map[string]map[string]string{
		own: {
			"app": "web", "namespace/team": "one", "namespace:kubernetes.io/metadata.name": "shop", translate.OwnerKey: "uid-of-x",
		},
		"m-1": {"machine/zone": "a", "machine/kubernetes-node": "m-1", translate.OwnerKey: "uid-of-x"},
	}, got, "a pod on its machine's network is no node, nor is one that ended")
	rest := []string{"kubernetes--default--egress", "kubernetes--default--ingress"}
	require.Equal(t, slices.Concat([]string{"cnp--guard--egress"}, rest, []string{"np--shop--web--ingress", "np--shop--web--ingress-isolate"}), slugs(t, on))

	eventually(t, "the status says what became of it", func() bool {
		o, err := c.dynamic.Resource(clusterPolicies).Get(t.Context(), "guard", metav1.GetOptions{})
		require.NoError(t, err)
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		var have []metav1.Condition
		for _, x := range conditions {
			var one metav1.Condition
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(x.(map[string]any), &one))
			have = append(have, one)
		}
		is, done := meta.FindStatusCondition(have, accepted), meta.FindStatusCondition(have, realized)
		return is != nil && is.Status == metav1.ConditionTrue && done.Message == "0 of 2 nodes applied it" // the machine is its peer
	})
	eventually(t, "an Event says what cannot be expressed", func() bool {
		events, err := c.typed.EventsV1().Events("shop").List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		return len(events.Items) == 1 && strings.Contains(events.Items[0].Note, "a port by name")
	})

	// What changes in the cluster changes in the plane.
	c.pod(podOf("shop", "web-1", "10.0.0.2", map[string]string{"app": "web"}))
	require.NoError(t, c.typed.CoreV1().Pods("shop").Delete(t.Context(), "web-0", metav1.DeleteOptions{}))
	require.NoError(t, c.dynamic.Resource(clusterPolicies).Delete(t.Context(), "guard", metav1.DeleteOptions{}))
	eventually(t, "a pod came and one went", func() bool {
		got := nodes(t, on)
		return len(got) == 2 && got[own] == nil
	})
	eventually(t, "a policy went", func() bool { return !slices.Contains(slugs(t, on), "cnp--guard--egress") })
	ns, err := c.typed.CoreV1().Namespaces().Get(t.Context(), "shop", metav1.GetOptions{})
	require.NoError(t, err)
	ns.Labels["team"] = "two"
	_, err = c.typed.CoreV1().Namespaces().Update(t.Context(), ns, metav1.UpdateOptions{})
	require.NoError(t, err)
	eventually(t, "pods have the labels of their namespace", func() bool {
		return nodes(t, on)[string(translate.PodID("uid-of-x", "shop", "web-1"))]["namespace/team"] == "two"
	})
}

// TestARestartWritesNothing: nor does one that takes over; what went meanwhile goes.
func TestARestartWritesNothing(t *testing.T) {
	c, on := newCluster(t), startPlane(t)
	c.namespace("shop", nil)
	for i := range 30 {
		c.pod(podOf("shop", fmt.Sprintf("web-%d", i), fmt.Sprintf("10.0.0.%d", i+1), map[string]string{"app": "web"}))
		c.policy(networkPolicies, "shop", fmt.Sprintf("p-%d", i), `{"podSelector":{},"egress":[{}],"policyTypes":["Egress"]}`)
	}
	head := func() uint64 {
		s, err := on.Status(t.Context(), false)
		require.NoError(t, err)
		return s.Head
	}
	first := start(t, c, on, "one")
	eventually(t, "the first writes", first.synced)
	second := start(t, c, on, "two")
	before := head()
	first.stop()
	eventually(t, "the second has the Lease", second.synced)
	require.Equal(t, before, head(), "what is so is not written again")
	require.Len(t, nodes(t, on), 30)
	second.stop()

	require.NoError(t, c.typed.CoreV1().Pods("shop").Delete(t.Context(), "web-7", metav1.DeleteOptions{}))
	require.NoError(t, c.dynamic.Resource(networkPolicies).Namespace("shop").Delete(t.Context(), "p-7", metav1.DeleteOptions{}))
	third := start(t, c, on, "three")
	eventually(t, "the third has the Lease", third.synced)
	require.Equal(t, before+3, head(), "a node and two policies are removed")
}

// TestWhatSomebodyElseChangedIsPutBack, though nothing changes in the cluster.
func TestWhatSomebodyElseChangedIsPutBack(t *testing.T) {
	c, on := newCluster(t), startPlane(t)
	c.namespace("shop", nil)
	c.pod(podOf("shop", "web-0", "10.0.0.1", map[string]string{"app": "web"}))
	c.pod(podOf("shop", "web-1", "10.0.0.2", map[string]string{"app": "web"}))
	c.policy(networkPolicies, "shop", "closed", `{"podSelector":{}}`)
	c.policy(networkPolicies, "shop", "gone", `{"podSelector":{}}`)
	r := start(t, c, on, "one")
	eventually(t, "the plane is what the cluster says", r.synced)
	wanted, all := nodes(t, on), slugs(t, on)
	named := func(slug string) resource.Policy {
		p, _, err := on.Policies.Named(t.Context(), project, slug)
		require.NoError(t, err)
		return p
	}
	closed := named("np--shop--closed--ingress-isolate")

	_, err := on.Policies.Revise(t.Context(), project, closed.ID, resource.Patch{Selector: &resource.Selector{Source: "app=nothing", Destination: "app=nothing"}})
	require.NoError(t, err)
	require.NoError(t, on.Policies.Delete(t.Context(), project, named("np--shop--gone--ingress-isolate").ID))
	changed, removed := string(translate.PodID("uid-of-x", "shop", "web-0")), string(translate.PodID("uid-of-x", "shop", "web-1"))
	labels := maps.Clone(wanted[changed])
	labels["app"] = "other"
	_, _, err = on.Nodes.Put(t.Context(), project, changed, resource.Facts{Labels: labels})
	require.NoError(t, err)
	require.NoError(t, on.Nodes.Delete(t.Context(), project, removed))

	eventually(t, "it is put back", func() bool {
		return named(closed.Slug).Head.Selector == closed.Head.Selector && slices.Equal(all, slugs(t, on)) && reflect.DeepEqual(wanted, nodes(t, on))
	})
}

// TestWhatWouldLetMoreThroughIsHeld: a policy that can no longer be expressed keeps what
// it said before, and others go on.
func TestWhatWouldLetMoreThroughIsHeld(t *testing.T) {
	c, on := newCluster(t), startPlane(t)
	c.namespace("shop", nil)
	c.policy(networkPolicies, "shop", "closed", `{"podSelector":{}}`)
	r := start(t, c, on, "one")
	eventually(t, "the plane is what the cluster says", r.synced)
	require.Contains(t, slugs(t, on), "np--shop--closed--ingress-isolate")

	o, err := c.dynamic.Resource(networkPolicies).Namespace("shop").Get(t.Context(), "closed", metav1.GetOptions{})
	require.NoError(t, err)
	require.NoError(t, unstructured.SetNestedField(o.Object, map[string]any{"podSelector": map[string]any{}, "policyTypes": []any{"Sideways"}}, "spec"))
	_, err = c.dynamic.Resource(networkPolicies).Namespace("shop").Update(t.Context(), o, metav1.UpdateOptions{})
	require.NoError(t, err)
	c.policy(networkPolicies, "shop", "other", `{"podSelector":{}}`)
	eventually(t, "the other is there", func() bool { return slices.Contains(slugs(t, on), "np--shop--other--ingress-isolate") })
	require.Contains(t, slugs(t, on), "np--shop--closed--ingress-isolate")
	eventually(t, "an Event says so", func() bool {
		events, err := c.typed.EventsV1().Events("shop").List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		return slices.ContainsFunc(slices.Collect(func(yield func(string) bool) {
			for _, e := range events.Items {
				yield(e.Reason)
			}
		}), func(reason string) bool { return reason == "Held" })
	})
	r.stop()
	r = start(t, c, on, "two")
	eventually(t, "another controller took over", r.synced)
	require.Contains(t, slugs(t, on), "np--shop--closed--ingress-isolate", "it does not know what the first made of it")
	require.NoError(t, c.dynamic.Resource(networkPolicies).Namespace("shop").Delete(t.Context(), "closed", metav1.DeleteOptions{}))
	eventually(t, "what went is gone", func() bool { return !slices.Contains(slugs(t, on), "np--shop--closed--ingress-isolate") })
}
