package api

func convergenceHints() map[string]hint {
	return map[string]hint{
		"Convergence":          says("How far all nodes have come, as far as they report."),
		"Convergence.desired":  count,
		"Convergence.applied":  count,
		"Convergence.reported": count,
		"Lagging":              says("A node that has not applied what it should."),
		"Lagging.node_id":      {Schema: nodeID},

		"Applied":             says("What a node reports that it applied."),
		"Applied.event_id":    {Schema: schema{Pattern: "^[0-9]+$"}},
		"Applied.fingerprint": fingerprint,
		"Rollout":             says("How far a policy has come, as far as nodes report."),
		"Rollout.desired":     count,
		"Rollout.applied":     count,
		"Rollout.dropped":     count,
	}
}
