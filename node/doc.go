// Package node is the client side of the plane: it follows the events of one
// node, verifies each, and goes on where it was after any cut. What came out is
// kept as the node's rows, policy by policy, and as their merged set, which is
// what the node must apply.
//
// A [Follower] never passes what it cannot verify: a notice that is unsigned,
// stale, signed by a stranger, meant for another node, or whose rules are not
// those of its fingerprint ends the connection, and is asked for again.
// FollowArtifacts follows what was released for a node instead, which the plane
// does not sign: whoever takes it verifies it.
package node
