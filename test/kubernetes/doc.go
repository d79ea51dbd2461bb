// Package kubernetes holds edict-controller against a real API server: kube-apiserver and
// etcd as processes on loopback, a plane and controllers as they are built and deployed,
// under the rights that the chart gives. make test-kubernetes builds the API server and
// runs it; without one, the tests say that they were left out.
package kubernetes
