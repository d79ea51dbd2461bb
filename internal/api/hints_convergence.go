package api

func convergenceHints() map[string]hint {
	return map[string]hint{
		"Convergence":          says("How far all nodes have come, as far as they report."),
		"Convergence.desired":  count("Registered nodes."),
		"Convergence.applied":  count("Nodes that hold what they must, and those of which nothing is asked."),
		"Convergence.reported": count("Nodes that ever reported."),
		"Lagging":              says("A node that has not applied what it should."),
		"Lagging.node_id":      {Schema: nodeID},

		"Applied":             says("What a node reports that it applied."),
		"Applied.event_id":    {Schema: schema{Pattern: "^[0-9]+$"}},
		"Applied.fingerprint": fingerprint,
		"Rollout":             says("How far a policy has come, as far as nodes report."),
		"Rollout.desired":     count("Nodes that must have its head."),
		"Rollout.applied":     count("Of these, nodes that have it."),
		"Rollout.dropped":     count("Nodes it was taken from, by a revision or its deletion, that have let go of it."),
	}
}
