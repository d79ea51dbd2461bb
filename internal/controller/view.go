package controller

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/edictdev/edict/internal/backoff"
	translate "github.com/edictdev/edict/internal/compiler/kubernetes"
)

// policyKinds are the kinds of policies that are watched where the cluster has them.
// Of ClusterNetworkPolicy one version: the first that is served now.
var policyKinds = []schema.GroupVersionResource{
	{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"},
	{Group: policyGroup, Version: "v1beta1", Resource: "clusternetworkpolicies"},
	{Group: policyGroup, Version: "v1alpha2", Resource: "clusternetworkpolicies"},
	{Group: policyGroup, Version: "v1alpha1", Resource: "adminnetworkpolicies"},
	{Group: policyGroup, Version: "v1alpha1", Resource: "baselineadminnetworkpolicies"},
}

const policyGroup = "policy.networking.k8s.io"

// byNamespace is the index of pods.
const byNamespace = cache.NamespaceIndex

// watched is a kind of policies that is watched.
type watched struct {
	cache.SharedIndexInformer
	stop context.CancelFunc
}

// view is what the controller knows of the cluster.
type view struct {
	opt                        Options
	pods, machines, namespaces cache.SharedIndexInformer

	mu       sync.Mutex
	policies map[schema.GroupVersionResource]watched

	changed func(key string) // a pod's namespace/name, or a machine's name
	policed func()           // some policy changed
	watched chan struct{}    // closed once all informers were made
}

func newView(opt Options) *view {
	typed := informers.NewSharedInformerFactoryWithOptions(opt.Kubernetes, 0, informers.WithTransform(slim))
	return &view{
		opt: opt, pods: typed.Core().V1().Pods().Informer(), machines: typed.Core().V1().Nodes().Informer(), namespaces: typed.Core().V1().Namespaces().Informer(),
		policies: map[schema.GroupVersionResource]watched{},
		changed:  func(string) {}, policed: func() {}, watched: make(chan struct{}),
	}
}

// slim drops what the plane does not ask for: 10,000 pods are held in memory.
func slim(obj any) (any, error) {
	switch o := obj.(type) {
	case *corev1.Pod:
		return &corev1.Pod{
			ObjectMeta: slimMeta(o.ObjectMeta),
			Spec:       corev1.PodSpec{HostNetwork: o.Spec.HostNetwork},
			Status:     corev1.PodStatus{Phase: o.Status.Phase, PodIPs: o.Status.PodIPs, PodIP: o.Status.PodIP},
		}, nil
	case *corev1.Node:
		return &corev1.Node{ObjectMeta: slimMeta(o.ObjectMeta), Status: corev1.NodeStatus{Addresses: o.Status.Addresses}}, nil
	case *corev1.Namespace:
		return &corev1.Namespace{ObjectMeta: slimMeta(o.ObjectMeta)}, nil
	}
	return obj, nil
}

func slimMeta(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion, Labels: m.Labels, CreationTimestamp: m.CreationTimestamp}
}

// machineKey tells a machine from a pod: no namespace is empty.
func machineKey(name string) string { return "/" + name }

func isMachine(key string) bool { return strings.HasPrefix(key, "/") }

// run watches until ctx ends.
func (v *view) run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	// changed has nil as what was, of an object that came or went.
	one := func(ctx context.Context, of cache.SharedIndexInformer, name string, changed func(was, obj any)) error {
		_, err := of.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { changed(nil, obj) },
			UpdateFunc: changed,
			DeleteFunc: func(obj any) { changed(nil, obj) },
		})
		if err != nil {
			return fmt.Errorf("watch %s: %w", name, err)
		}
		_ = of.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
			v.opt.Metrics.failed("watch")
			v.opt.Log.Warn("the watch ended and is begun again", "of", name, "error", err)
		})
		wg.Go(func() { of.RunWithContext(ctx) })
		return nil
	}
	if err := one(ctx, v.namespaces, "namespaces", v.namespaceChanged); err != nil {
		return err
	}
	if err := one(ctx, v.machines, "nodes", func(_, obj any) { v.changed(machineKey(nameOf(obj))) }); err != nil {
		return err
	}
	if err := one(ctx, v.pods, "pods", func(_, obj any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
			v.changed(key)
		}
	}); err != nil {
		return err
	}
	return v.watchPolicies(ctx, func(ctx context.Context, k schema.GroupVersionResource, of cache.SharedIndexInformer) error {
		return one(ctx, of, k.Resource, func(was, obj any) {
			if !saysTheSame(was, obj) {
				v.policed()
			}
		})
	})
}

// saysTheSame reports whether one policy means what it meant before: who writes its status
// or its annotations, as we do ourselves, changes nothing in the plane.
func saysTheSame(was, is any) bool {
	a, ok := was.(*unstructured.Unstructured)
	b, also := is.(*unstructured.Unstructured)
	return ok && also && a.GetUID() == b.GetUID() && reflect.DeepEqual(a.Object["spec"], b.Object["spec"])
}

// served are the kinds of policies that the cluster has now.
func (v *view) served() (kinds []schema.GroupVersionResource, err error) {
	had := map[string]bool{}
	for _, k := range policyKinds {
		list, err := v.opt.Kubernetes.Discovery().ServerResourcesForGroupVersion(k.GroupVersion().String())
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("which kinds the cluster has: %w", err)
		}
		for _, r := range list.APIResources {
			if r.Name == k.Resource && !had[k.Resource] {
				had[k.Resource] = true
				kinds = append(kinds, k)
			}
		}
	}
	return kinds, nil
}

// lookAgain is how often the kinds that a cluster has are asked for: definitions of
// custom ones may come later.
const lookAgain = time.Minute

func (v *view) watchPolicies(ctx context.Context, watch func(context.Context, schema.GroupVersionResource, cache.SharedIndexInformer) error) error {
	first := true
	for {
		var failed error
		if !v.opt.insist(ctx, "discovery", func() error {
			kinds, err := v.served()
			if err != nil {
				return err
			}
			for _, k := range kinds {
				if v.informer(k) != nil {
					continue
				}
				of := dynamicinformer.NewFilteredDynamicInformer(v.opt.Dynamic, k, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
				served, stop := context.WithCancel(ctx)
				if failed = watch(served, k, of); failed != nil {
					stop()
					return nil
				}
				if v.replace(k, watched{of, stop}) {
					v.policed() // even if none is there any more, of which it would tell
				}
				v.opt.Log.Info("watching a kind of object", "kind", k.Resource, "version", k.GroupVersion().String())
			}
			return nil
		}) {
			return nil
		}
		if failed != nil {
			return failed
		}
		if first {
			first = false
			close(v.watched)
		}
		if backoff.Sleep(ctx, lookAgain) != nil {
			return nil
		}
	}
}

// replace has a kind watched, in place of the other version of it, which may be served no
// more and then tells of nothing. It reports whether there was one.
func (v *view) replace(k schema.GroupVersionResource, of watched) (had bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for other, was := range v.policies {
		if other.Resource == k.Resource {
			was.stop()
			delete(v.policies, other)
			had = true
		}
	}
	v.policies[k] = of
	return had
}

func (v *view) informer(k schema.GroupVersionResource) cache.SharedIndexInformer {
	v.mu.Lock()
	defer v.mu.Unlock()
	if of, watched := v.policies[k]; watched {
		return of
	}
	return nil
}

// wait waits until everything was read once, and reports whether ctx goes on.
func (v *view) wait(ctx context.Context) bool {
	select {
	case <-v.watched:
	case <-ctx.Done():
		return false
	}
	all := []cache.InformerSynced{v.pods.HasSynced, v.machines.HasSynced, v.namespaces.HasSynced}
	v.mu.Lock()
	for _, of := range v.policies {
		all = append(all, of.HasSynced)
	}
	v.mu.Unlock()
	return cache.WaitForCacheSync(ctx.Done(), all...)
}

func nameOf(obj any) string {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	m, ok := obj.(metav1.Object)
	if !ok {
		return ""
	}
	return m.GetName()
}

// namespaceChanged changes the pods in it, which have its labels.
func (v *view) namespaceChanged(_, obj any) {
	pods, err := v.pods.GetIndexer().IndexKeys(byNamespace, nameOf(obj))
	if err != nil {
		return
	}
	for _, key := range pods {
		v.changed(key)
	}
}

// keys are those of all pods and machines.
func (v *view) keys() (all []string) {
	all = v.pods.GetStore().ListKeys()
	for _, name := range v.machines.GetStore().ListKeys() {
		all = append(all, machineKey(name))
	}
	return all
}

// objects are all policies of the cluster, by kind; false: one is not read yet.
func (v *view) objects() (all []*unstructured.Unstructured, whole bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, k := range policyKinds {
		of, watched := v.policies[k]
		if !watched {
			continue
		}
		if !of.HasSynced() {
			return nil, false
		}
		for _, o := range of.GetStore().List() {
			all = append(all, o.(*unstructured.Unstructured))
		}
	}
	return all, true
}

// current is a policy as the cluster has it now; false: it went, or another took its name.
func (v *view) current(o *unstructured.Unstructured) (*unstructured.Unstructured, bool) {
	kind, ok := v.resource(o)
	if !ok || v.informer(kind) == nil {
		return nil, false
	}
	key, err := cache.MetaNamespaceKeyFunc(o)
	if err != nil {
		return nil, false
	}
	obj, there, err := v.informer(kind).GetStore().GetByKey(key)
	if err != nil || !there {
		return nil, false
	}
	now := obj.(*unstructured.Unstructured)
	return now, now.GetUID() == o.GetUID()
}

// pod is a pod as the plane sees it; false: there is none, or it has no address of its
// own, as one on its machine's network.
func (v *view) pod(key string) (p translate.Pod, ok bool) {
	obj, there, err := v.pods.GetStore().GetByKey(key)
	if err != nil || !there {
		return p, false
	}
	pod := obj.(*corev1.Pod)
	if pod.Spec.HostNetwork || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return p, false
	}
	p = translate.Pod{Cluster: v.opt.Cluster, Namespace: pod.Namespace, Name: pod.Name, Labels: pod.Labels}
	for _, a := range pod.Status.PodIPs {
		p.Addresses = append(p.Addresses, a.IP)
	}
	if len(p.Addresses) == 0 && pod.Status.PodIP != "" {
		p.Addresses = []string{pod.Status.PodIP}
	}
	if ns, there, err := v.namespaces.GetStore().GetByKey(pod.Namespace); err == nil && there {
		p.Of = ns.(*corev1.Namespace).Labels
	}
	return p, len(p.Addresses) > 0
}

// before reports whether a pod or machine was made before another; one that is there no more
// comes last.
func (v *view) before(key, other string) bool {
	made := func(key string) (time.Time, bool) {
		in := v.pods
		if isMachine(key) {
			in, key = v.machines, strings.TrimPrefix(key, "/")
		}
		obj, there, err := in.GetStore().GetByKey(key)
		if err != nil || !there {
			return time.Time{}, false
		}
		return obj.(metav1.Object).GetCreationTimestamp().Time, true
	}
	a, _ := made(key)
	b, there := made(other)
	return !there || cmp.Or(a.Compare(b), strings.Compare(key, other)) < 0
}

// machine is a machine as the plane sees it.
func (v *view) machine(name string) (m translate.Machine, ok bool) {
	obj, there, err := v.machines.GetStore().GetByKey(name)
	if err != nil || !there {
		return m, false
	}
	node := obj.(*corev1.Node)
	m = translate.Machine{Cluster: v.opt.Cluster, Name: node.Name, Labels: node.Labels}
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP || a.Type == corev1.NodeExternalIP {
			m.Addresses = append(m.Addresses, a.Address)
		}
	}
	return m, len(m.Addresses) > 0
}

// resource is how an object is asked for.
func (v *view) resource(o *unstructured.Unstructured) (schema.GroupVersionResource, bool) {
	of := o.GroupVersionKind()
	for _, k := range policyKinds {
		plural := strings.ToLower(of.Kind[:len(of.Kind)-1]) + "ies"
		if k.Group == of.Group && k.Version == of.Version && k.Resource == plural {
			return k, true
		}
	}
	return schema.GroupVersionResource{}, false
}
