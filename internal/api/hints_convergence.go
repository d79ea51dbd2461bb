package api

import "github.com/edictdev/edict/internal/api/openapi"

func convergenceHints() map[string]hint {
	count := func(text string) hint { return hint{Schema: schema{Description: text, Minimum: openapi.N(0)}} }
	return map[string]hint{
		"Status.convergence": says("How many nodes hold what they must; absent while this worker has not read what they reported."),

		"Convergence":          says("How far all nodes have come, as far as they report."),
		"Convergence.desired":  count("Registered nodes."),
		"Convergence.applied":  count("Nodes that hold what they must, and those of which nothing is asked."),
		"Convergence.reported": count("Nodes that ever reported."),
		"Convergence.lagging":  says("The others, those behind for the longest first, as many as were asked for."),
		"Lagging":              says("A node that has not applied what it should."),
		"Lagging.node_id":      {Schema: nodeID},
		"Lagging.since":        says("The log timestamp of the first change it is not known to have; of a node that holds something else than it was told, when it said so. Null when the log did not answer."),

		"Applied":             says("What a node reports that it applied."),
		"Applied.event_id":    {Schema: schema{Pattern: "^[0-9]+$", Description: "How far it has: the id of the last event it applied, or Edict-Event-Id of the state it pulled, whichever is greater. Decimal digits. Where it is given, version says nothing."}},
		"Applied.version":     says("What agents say that know no event ids: the log sequence up to which it has, such as Edict-Log-Seq of the state it pulled. Not above the log's last. One of the two is required."),
		"Applied.fingerprint": fingerprint,
		"Rollout":             says("How far a policy has come, as far as nodes report."),
		"Rollout.desired":     count("Nodes that must have its head."),
		"Rollout.applied":     count("Of these, nodes that have it."),
		"Rollout.dropped":     count("Nodes it was taken from, by a revision or its deletion, that have let go of it."),
		"Rollout.lagging":     says("Nodes that must still apply it, or let go of it, those behind for the longest first, as many as were asked for."),
		"Rollout.refused":     says("Nodes of the policy whose table is refused, so that they keep their last good one: those that asked this worker, and the first node of each label set. Absent when there are none."),
		"Rollout.p50_seconds": says("Seconds from the commit of its last change until half of the nodes that it touched had reported it applied; null when that is known of none."),
		"Rollout.p99_seconds": says("The same for 99 of 100 nodes."),
	}
}
