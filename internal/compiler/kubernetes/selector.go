package kubernetes

import (
	"maps"
	"slices"
	"strings"

	"github.com/edictdev/edict/policy"
)

// nameLabel is the label that Kubernetes gives every namespace: its name.
const nameLabel = "kubernetes.io/metadata.name"

// NamespaceKey is the key, on a node, of a label of the namespace that the node's
// pod is in: namespace/team for team, and namespace:kubernetes.io/metadata.name
// for kubernetes.io/metadata.name, which every namespace has.
func NamespaceKey(key string) string {
	if strings.Contains(key, "/") {
		return "namespace:" + key
	}
	return "namespace/" + key
}

// podKey is the key, on a node, of a label of the pod: the same. One that would be
// taken for a label of the pod's namespace or of a machine, because Kubernetes allows
// namespace/team on a pod, is pod:namespace/team; so is one that would be taken for the
// node's owner.
func podKey(key string) string {
	if key == OwnerKey || strings.HasPrefix(key, "namespace/") || strings.HasPrefix(key, "machine/") {
		return "pod:" + key
	}
	return key
}

// pods are all of them: nodes that carry the name of a namespace.
func pods() policy.Expr {
	return policy.Expr{{Op: policy.Exists, Key: NamespaceKey(nameLabel)}}
}

// MachineKey is the key, on a node that is a machine of the cluster, of a label of it:
// machine/zone for zone, and machine:kubernetes.io/os for kubernetes.io/os.
func MachineKey(key string) string {
	if strings.Contains(key, "/") {
		return "machine:" + key
	}
	return "machine/" + key
}

// machineLabel is a label of every machine, with its name.
const machineLabel = "machine/kubernetes-node"

// machines are all of them.
func machines() policy.Expr { return policy.Expr{{Op: policy.Exists, Key: machineLabel}} }

// podsAndMachines are all of both: a rule says which of them are its peers.
func podsAndMachines() policy.Expr { return policy.Expr{{Op: policy.Exists, Key: OwnerKey}} }

// podsOf are the pods of one namespace.
func podsOf(namespace string) policy.Expr {
	return policy.Expr{{Op: policy.Equal, Key: NamespaceKey(nameLabel), Values: []string{namespace}}}
}

// selector reads a LabelSelector; an empty one has no clauses.
func (v value) selector(key func(string) string) (e policy.Expr, ok bool) {
	if !v.present() {
		return nil, true
	}
	fields, ok := v.members("matchLabels", "matchExpressions")
	if labels := fields["matchLabels"]; labels.present() {
		values, fine := labels.named()
		ok = ok && fine
		for _, k := range slices.Sorted(maps.Keys(values)) {
			text, fine := values[k].text()
			ok = ok && fine
			e = append(e, policy.Clause{Op: policy.Equal, Key: key(k), Values: []string{text}})
		}
	}
	tests, fine := fields["matchExpressions"].elements()
	ok = ok && fine
	for _, t := range tests {
		clauses, fine := t.requirement(key)
		ok = ok && fine
		e = append(e, clauses...)
	}
	return e, ok
}

// requirement reads one test of matchExpressions.
func (v value) requirement(key func(string) string) (policy.Expr, bool) {
	fields, ok := v.members("key", "operator", "values")
	if !ok {
		return nil, false
	}
	name, ok := fields["key"].text()
	operator, fine := fields["operator"].text()
	elements, listed := fields["values"].elements()
	if !ok || !fine || !listed {
		return nil, false
	}
	name = key(name)
	var values []string
	for _, x := range elements {
		text, ok := x.text()
		if !ok {
			return nil, false
		}
		values = append(values, text)
	}
	slices.Sort(values)
	values = slices.Compact(values)
	switch {
	case operator == "In" && len(values) > 0:
		return policy.Expr{{Op: policy.In, Key: name, Values: values}}, true
	case operator == "NotIn" && len(values) > 0:
		var all policy.Expr
		for _, x := range values {
			all = append(all, policy.Clause{Op: policy.NotEqual, Key: name, Values: []string{x}})
		}
		return all, true
	case operator == "Exists" && len(values) == 0:
		return policy.Expr{{Op: policy.Exists, Key: name}}, true
	case operator == "DoesNotExist" && len(values) == 0:
		return policy.Expr{{Op: policy.Absent, Key: name}}, true
	}
	v.note("want operator In or NotIn with values, or Exists or DoesNotExist without")
	return nil, false
}

// checked is e as the plane reads it. What is too long or too many for one
// selector is an item, and so is what no label can be: a comma in it would be read as
// the end of a clause.
func (v value) checked(e policy.Expr) (policy.Expr, bool) {
	for _, c := range e {
		for _, text := range append([]string{""}, c.Values...) {
			if _, err := policy.NewLabels(map[string]string{c.Key: text}, ""); err != nil {
				v.note("no label is %.64q with value %.64q: %s", c.Key, text, err.(policy.Violations)[0].Detail)
				return nil, false
			}
		}
	}
	read, faults := policy.ParseExpr(e.Canonical())
	if len(faults) > 0 {
		v.note("the plane has no such selector: %s", faults[0].Message)
		return nil, false
	}
	return read, true
}

// namespacedPod reads {namespaceSelector, podSelector}.
func (v value) namespacedPod() (policy.Expr, bool) {
	fields, ok := v.members("namespaceSelector", "podSelector")
	if !ok {
		return nil, false
	}
	namespaces, ok := fields["namespaceSelector"].selector(NamespaceKey)
	own, fine := fields["podSelector"].selector(podKey)
	if !ok || !fine {
		return nil, false
	}
	return v.checked(slices.Concat(pods(), namespaces, own))
}
