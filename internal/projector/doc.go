// Package projector folds the policy log into a read model that can be asked
// at once: which policies, nodes and label sets exist, which rows each node
// must apply, and what every event changed for whom.
//
// The state is a function of the log alone. Two projectors at one sequence hold
// the same facts and rows, however the log was cut into batches, repeated or
// interrupted. One function, [fold.event], says what an event means; one Pebble
// batch moves facts, memberships, the kept past and the cursor together, so a
// crash keeps all of a batch or nothing of it.
//
// A row (node, policy) is never stored. Selectors match identities, the
// distinct label sets of a project, and the store holds those memberships; the
// rows of a node follow from its identity. What leaves the projector towards
// the nodes are edges, handed to a [Feed] in memory: for each event and policy,
// which nodes have the row now and which lost it; and, for a node that was away,
// its [Past]. Both say the same thing under the same id, in every worker, for
// they follow from the log and from since when things are as they are. Telling
// the nodes is the relay's business.
//
// Memory and Pebble move together under one lock, so a [View] never sees one
// without the other. Nothing here is needed for durability: the log is. Losing
// a store costs a replay.
package projector
