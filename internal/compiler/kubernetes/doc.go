// Package kubernetes translates Kubernetes' NetworkPolicy (networking.k8s.io/v1)
// and ClusterNetworkPolicy (policy.networking.k8s.io/v1alpha2) into Edict's
// ordered policies. What it cannot express is an item of the result, with the
// place and the reason; docs/kubernetes.md says what becomes of what.
//
// A pod is a node of the plane. It carries its own labels and those of its
// namespace, see NamespaceKey. Kubernetes asks two lists about a flow, that of
// the egress of its source and that of the ingress of its destination, and each
// must allow it. So the translated rules say their direction.
package kubernetes
