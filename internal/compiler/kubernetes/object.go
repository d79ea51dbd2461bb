package kubernetes

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/edictdev/edict/policy"
)

// Groups and versions of the kinds that are read.
const (
	networkGroup = "networking.k8s.io/v1"
	adminGroup   = "policy.networking.k8s.io/v1alpha1"
	clusterGroup = "policy.networking.k8s.io/v1alpha2"
	betaGroup    = "policy.networking.k8s.io/v1beta1"
)

const maxClusterPriority = 1000

// kind is a kind of object that is read.
type kind struct {
	name   string
	prefix string // of its slugs
	groups []string
	read   func(*object, value) bool // the spec
}

// kinds are all of them. NetworkPolicy is the one whose objects are in a namespace.
var kinds = []*kind{
	{"NetworkPolicy", "np", []string{networkGroup}, (*object).namespaced},
	{"ClusterNetworkPolicy", "cnp", []string{clusterGroup, betaGroup}, (*object).cluster},
	{"AdminNetworkPolicy", "anp", []string{adminGroup}, (*object).admin},
	{"BaselineAdminNetworkPolicy", "banp", []string{adminGroup}, (*object).baselineAdmin},
}

func (k *kind) namespaced() bool { return k == kinds[0] }

// kindOf is the kind of that name; nil: none that is read.
func kindOf(group, name string) *kind {
	for _, k := range kinds {
		if k.name == name && slices.Contains(k.groups, group) {
			return k
		}
	}
	return nil
}

// object is an object of one of the kinds.
type object struct {
	at              value
	kind            *kind
	machines        bool   // the machines of the cluster are nodes of the plane
	namespace, name string // namespace: of a NetworkPolicy alone
	tier            policy.Tier
	priority        uint32
	ingress, egress *section // nil: the object does not speak of it
	leftOut         bool     // it cannot be read, and nobody else gets its slugs
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
		return o.kind.name + " " + o.name
	}
	return o.kind.name + " " + o.namespace + "/" + o.name
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

// objects reads a document: an object, or a list of them.
func objects(v value, opt Options) []*object {
	fields, ok := v.loose()
	if !ok {
		return nil
	}
	group, _ := fields["apiVersion"].v.(string)
	name, _ := fields["kind"].v.(string)
	known := func(k *kind) bool { return slices.Contains(k.groups, group) }
	if strings.HasSuffix(name, "List") && (group == "v1" || slices.ContainsFunc(kinds, known)) {
		items, ok := value{v.r, v.at + "/items", fields["items"].v}.elements()
		if !ok {
			v.r.widens()
		}
		of := kindOf(group, strings.TrimSuffix(name, "List"))
		var all []*object
		for _, item := range items {
			if of != nil && !item.saysKind() {
				all = append(all, readObject(item, of, opt)...)
			} else {
				all = append(all, objects(item, opt)...)
			}
		}
		return all
	}
	if k := kindOf(group, name); k != nil {
		return readObject(v, k, opt)
	}
	note := v.note
	if name == "" || strings.HasSuffix(strings.TrimSuffix(name, "List"), "Policy") {
		note = v.lose
	}
	note("%s %s is not read; want %s NetworkPolicy, %s ClusterNetworkPolicy, or %s AdminNetworkPolicy and BaselineAdminNetworkPolicy",
		group, name, networkGroup, betaGroup, adminGroup)
	return nil
}

// saysKind reports whether an object says what it is. Items of a list of one kind need
// not: the API server leaves it out.
func (v value) saysKind() bool {
	o, _ := v.v.(map[string]any)
	return o["apiVersion"] != nil || o["kind"] != nil
}

// readObject is the object, or none, where it is left out.
func readObject(v value, k *kind, opt Options) []*object {
	fields, known := v.members("apiVersion", "kind", "metadata", "spec", "status")
	o := &object{at: v, kind: k, machines: opt.Machines, tier: policy.Normal}
	meta, ok := fields["metadata"].loose()
	if !ok {
		v.lose("the object is left out")
		return nil
	}
	o.name, _ = meta["name"].v.(string)
	if o.name == "" {
		fields["metadata"].lose("want a name; the object is left out")
		return nil
	}
	if k.namespaced() {
		if o.namespace, _ = meta["namespace"].v.(string); o.namespace == "" {
			o.namespace = opt.Namespace
		}
	}
	if !known || !k.read(o, fields["spec"]) {
		v.lose("%s is left out", o.id())
		o.leftOut = true
	}
	return []*object{o}
}
