package kubernetes

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/edictdev/edict/policy"
)

// Groups and versions of the kinds that are read.
const (
	networkGroup = "networking.k8s.io/v1"
	clusterGroup = "policy.networking.k8s.io/v1alpha2"
)

const maxClusterPriority = 1000

// object is a NetworkPolicy or a ClusterNetworkPolicy.
type object struct {
	at              value
	namespace, name string // no namespace: a ClusterNetworkPolicy
	tier            policy.Tier
	priority        uint32
	ingress, egress *section // nil: the object does not speak of it
}

// sections are those that the object speaks of.
func (o *object) sections() (all []*section) {
	for _, s := range []*section{o.ingress, o.egress} {
		if s != nil {
			all = append(all, s)
		}
	}
	return all
}

// id is the name by which people know the object.
func (o *object) id() string {
	if o.namespace == "" {
		return "ClusterNetworkPolicy " + o.name
	}
	return "NetworkPolicy " + o.namespace + "/" + o.name
}

// Recognize reports whether a JSON document is a Kubernetes object: it has
// apiVersion and kind.
func Recognize(doc []byte) bool {
	if !bytes.Contains(doc, []byte(`"apiVersion"`)) {
		return false // quickly, for the sake of long imports
	}
	var o struct {
		APIVersion json.RawMessage `json:"apiVersion"`
		Kind       json.RawMessage `json:"kind"`
	}
	return json.Unmarshal(doc, &o) == nil && o.APIVersion != nil && o.Kind != nil
}

// objects reads a document: an object, or a list of them. namespace is that of
// NetworkPolicies that name none.
func objects(v value, namespace string) []*object {
	fields, ok := v.loose()
	if !ok {
		return nil
	}
	group, _ := fields["apiVersion"].v.(string)
	kind, _ := fields["kind"].v.(string)
	listed := strings.HasSuffix(kind, "List") && (group == "v1" || group == networkGroup || group == clusterGroup)
	switch {
	case listed:
		items, ok := value{v.r, v.at + "/items", fields["items"].v}.elements()
		if !ok {
			v.r.widens()
		}
		var all []*object
		for _, item := range items {
			all = append(all, objects(item, namespace)...)
		}
		return all
	case group == networkGroup && kind == "NetworkPolicy", group == clusterGroup && kind == "ClusterNetworkPolicy":
		if o := readObject(v, kind == "NetworkPolicy", namespace); o != nil {
			return []*object{o}
		}
		return nil
	}
	note := v.note
	if strings.HasSuffix(strings.TrimSuffix(kind, "List"), "Policy") {
		note = v.lose
	}
	note("%s %s is not read; want %s NetworkPolicy or %s ClusterNetworkPolicy", group, kind, networkGroup, clusterGroup)
	return nil
}

func readObject(v value, namespaced bool, namespace string) *object {
	fields, known := v.members("apiVersion", "kind", "metadata", "spec", "status")
	o := &object{at: v, tier: policy.Normal}
	meta, ok := fields["metadata"].loose()
	if !ok || !known {
		v.lose("the object is left out")
		return nil
	}
	o.name, _ = meta["name"].v.(string)
	if o.name == "" {
		fields["metadata"].lose("want a name; the object is left out")
		return nil
	}
	if namespaced {
		if o.namespace, _ = meta["namespace"].v.(string); o.namespace == "" {
			o.namespace = namespace
		}
		ok = o.namespaced(fields["spec"])
	} else {
		ok = o.cluster(fields["spec"])
	}
	if !ok {
		v.lose("%s is left out", o.id())
		return nil
	}
	return o
}
