// Package netns gives a test network namespaces of its own, with links between
// them. The test runs once more in a child process that begins in a new one, by root or
// as root of a user namespace: the machine's own network is never touched, and
// everything goes when the child does.
package netns
