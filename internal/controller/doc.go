// Package controller keeps a project of a plane at what a Kubernetes cluster says: its
// pods and machines are nodes there, its network policies policies, as package
// kubernetes translates them. It watches the cluster and writes what differs through
// the plane's API, in batches. What the plane has already is not written again, so a
// controller that is restarted writes nothing.
//
// Of several controllers the one that holds a Lease writes. What became of a policy is
// written back to its status, or, of a NetworkPolicy, which has none, to an Event.
package controller
