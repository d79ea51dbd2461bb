package kubernetes

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/edictdev/edict/policy"
)

// OwnerKey is the label of every node that was made of something of a cluster, with
// the cluster's name.
const OwnerKey = "edict/cluster"

// Pod is what the plane knows of a pod.
type Pod struct {
	Cluster         string // where it is, among the clusters of the plane
	Namespace, Name string
	Labels          map[string]string
	Of              map[string]string // labels of its namespace
	Addresses       []string
}

// PodID names a pod in the plane: its own name, and a hash of it with its cluster and
// its namespace. A pod that is made again under its name is the same node.
func PodID(cluster, namespace, name string) policy.NodeID {
	return nodeID(name, cluster, namespace, name)
}

// Node is the pod as a node, with its own labels and those of its namespace. What the
// plane cannot take of it is left out, and reported.
func (p Pod) Node() (n policy.Node, left []string) {
	labels := map[string]string{NamespaceKey(nameLabel): p.Namespace}
	for k, v := range p.Of {
		labels[NamespaceKey(k)] = v
	}
	// Whatever is said of a namespace, its name is where the pod is.
	labels[NamespaceKey(nameLabel)] = p.Namespace
	for k, v := range p.Labels {
		labels[podKey(k)] = v
	}
	return node(PodID(p.Cluster, p.Namespace, p.Name), p.Cluster, NamespaceKey(nameLabel), labels, p.Addresses)
}

// Machine is what the plane knows of a machine, a Node of Kubernetes.
type Machine struct {
	Cluster   string
	Name      string
	Labels    map[string]string
	Addresses []string
}

// MachineID names a machine in the plane: its own name where that is a DNS label, and
// else one made of it that ends in a hash.
func MachineID(name string) policy.NodeID {
	if id, err := policy.ParseNodeID(name); err == nil {
		return id
	}
	return nodeID(name, name)
}

// Node is the machine as a node, with its labels under [MachineKey].
func (m Machine) Node() (n policy.Node, left []string) {
	labels := map[string]string{machineLabel: m.Name}
	for k, v := range m.Labels {
		labels[MachineKey(k)] = v
	}
	labels[machineLabel] = m.Name // whatever the machine's labels say
	return node(MachineID(m.Name), m.Cluster, machineLabel, labels, m.Addresses)
}

// nodeID is a DNS label that begins like a name and ends in a hash of parts.
func nodeID(name string, parts ...string) policy.NodeID {
	const hashed = 10 // characters, 40 bits
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	said := strings.Map(func(r rune) rune {
		if r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
	said = strings.Trim(said[:min(len(said), policy.MaxNodeID-hashed-1)], "-")
	return policy.NodeID(strings.TrimPrefix(said+"-"+hex.EncodeToString(sum[:hashed/2]), "-"))
}

// inOrderOfTrust are the keys of labels, a pod's own last: who has many of them must not
// push out those of the namespace, by which policies know where the pod is.
func inOrderOfTrust(labels map[string]string) []string {
	own := func(key string) int {
		if strings.HasPrefix(key, "namespace/") || strings.HasPrefix(key, "namespace:") {
			return 0
		}
		return 1
	}
	keys := slices.Sorted(maps.Keys(labels))
	slices.SortStableFunc(keys, func(a, b string) int { return own(a) - own(b) })
	return keys
}

// node checks what became of an object, and leaves out what the plane does not take.
// The label mark, by which it is known for what it is, and its owner stay.
func node(id policy.NodeID, cluster, mark string, labels map[string]string, addresses []string) (n policy.Node, left []string) {
	n.ID = id
	labels[OwnerKey] = cluster
	kept := map[string]string{OwnerKey: cluster, mark: labels[mark]}
	for _, k := range inOrderOfTrust(labels) {
		_, err := policy.NewLabels(map[string]string{k: labels[k]}, "")
		switch {
		case err != nil:
			left = append(left, fmt.Sprintf("label %s: %v", k, err))
		case kept[k] == "" && len(kept) == policy.MaxLabels:
			left = append(left, fmt.Sprintf("label %s: a node has at most %d", k, policy.MaxLabels))
		default:
			kept[k] = labels[k]
		}
	}
	for _, k := range []string{OwnerKey, mark} {
		if _, err := policy.NewLabels(map[string]string{k: kept[k]}, ""); err != nil {
			delete(kept, k) // it was reported above
		}
	}
	n.Labels, _ = policy.NewLabels(kept, "") // each was checked
	for _, a := range addresses {
		addr, err := netip.ParseAddr(a)
		if err != nil {
			left = append(left, fmt.Sprintf("address %q: %v", a, err))
			continue
		}
		// A machine's internal address is often its external one, too; the plane keeps it once.
		if addr = addr.Unmap().WithZone(""); !slices.Contains(n.Addresses, addr) {
			n.Addresses = append(n.Addresses, addr)
		}
	}
	return n, left
}
