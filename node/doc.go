// Package node is the client side of the plane: it follows the events of one
// node, verifies each, and resumes after a lost connection. It keeps the node's rows,
// one for each policy, and merges them into the rules that the node must apply.
//
// A [Follower] never passes on what it cannot verify. A notice that is unsigned,
// stale, signed with an unknown key or meant for another node, or whose rules do not
// match its fingerprint, ends the connection and is requested again.
// FollowArtifacts follows the artifacts that are released for a node instead. The
// plane does not sign these: the caller verifies them.
package node
