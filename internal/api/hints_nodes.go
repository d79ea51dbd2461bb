package api

import (
	"github.com/edictdev/edict/internal/api/openapi"
	"github.com/edictdev/edict/internal/convergence"
	"github.com/edictdev/edict/policy"
)

func nodeHints() map[string]hint {
	optional := func(s schema) hint { return hint{Schema: s, Optional: true} }
	return map[string]hint{
		"Facts":           says("What a node is registered with. What is absent is empty."),
		"Facts.labels":    optional(labels),
		"Facts.addresses": optional(addresses),

		"NodeLine":           says("One line of a batch of nodes."),
		"NodeLine.id":        {Schema: nodeID},
		"NodeLine.labels":    optional(labels),
		"NodeLine.addresses": optional(addresses),

		"Node":                    says("A registered node."),
		"Node.id":                 {Schema: nodeID},
		"Node.labels":             {Schema: labels},
		"Node.addresses":          {Schema: addresses},
		"NodeReport":              says("Where a node stands with what is asked of it, and what it reported last."),
		"NodeReport.state":        {Schema: schema{Enum: openapi.OneOfTexts(convergence.States[:]...)}},
		"NodeReport.outcome":      {Schema: schema{Enum: openapi.OneOfTexts(policy.Outcomes...)}},
		"NodeCounts":              says("Nodes by where they stand."),
		"NodeGroup":               says("The nodes that have one value of a label."),
		"PastCounts":              says("Nodes of a moment."),
		"PastGroup":               says("One value's."),
		"NodeDiff":                says("What became of a node between two moments of the log. Rulesets that both have alike are left out."),
		"NodeDiff.node_id":        {Schema: nodeID},
		"NodeAt":                  says("A node at one moment."),
		"RowChange":               says("A ruleset of a node that differs between two moments."),
		"RowChange.policy_id":     says("The policy whose rules they are."),
		"RowRevision.revision_id": says("The revision it was compiled from."),
		"RowRevision.fingerprint": fingerprint,
		"RowChange.change":        {Schema: schema{Description: "What became of it.", Enum: openapi.OneOfTexts(rowAdded, rowRemoved, rowChanged)}},
		"RowRevision":             says("A ruleset at one moment."),
		"ChangeEvent":             says("An event of the log that changed something."),
		"NodePage":                says("A page of nodes."),
		"NodePage.items":          says("Nodes by id."),
		"NodePage.next_cursor":    nextCursor,

		"BatchResult":           says("What became of the lines of a batch."),
		"BatchResult.applied":   {Schema: schema{Minimum: openapi.N(0)}},
		"BatchResult.unchanged": {Schema: schema{Minimum: openapi.N(0)}},
		"RejectedLine":          says("A line that changed nothing."),
		"RejectedLine.line":     {Schema: schema{Minimum: openapi.N(1)}},
	}
}

func stateHints() map[string]hint {
	unowned := hint{Schema: schema{Description: "Null until a part of the plane owns it.", Type: []string{"object", "null"}}}
	return map[string]hint{
		"NodeState":              says("A node's whole desired state. Equal states have equal bytes."),
		"NodeState.reachability": unowned,
		"NodeState.bridge":       unowned,
		"NodeState.state":        unowned,
		"NodeState.reports":      unowned,
		"NodeState.sessions":     unowned,
		"NodePolicy":             says("The rules of all policies that match a node, by ascending policy id."),
		"NodePolicy.fingerprint": fingerprint,

		"RulesetItems":        says("A node's rulesets."),
		"RulesetItems.items":  says("Rulesets by policy id."),
		"Ruleset":             says("One policy's compiled rules on one node."),
		"Ruleset.fingerprint": fingerprint,
	}
}

func eventHints() map[string]hint {
	eventType := hint{Schema: schema{Description: "What happened.", Enum: []any{"policy_updated", "artifact_updated", "node_state_updated", "signing_key_rotated"}}}
	payload := func(rotated string) hint {
		h := hint{Schema: schema{Description: "What it is about, by type."}}
		for _, name := range []string{"PolicyUpdated", "ArtifactUpdated", "NodeStateUpdated", rotated} {
			h.OneOf = append(h.OneOf, &schema{Ref: "#/components/schemas/" + name})
		}
		return h
	}
	return map[string]hint{
		"Event":                  says("The data of one event of a node's stream."),
		"Event.type":             eventType,
		"Event.scope":            {Schema: schema{Pattern: "^node:", Examples: []any{"node:web-1"}}},
		"Event.key_id":           keyIDHint(),
		"Event.payload":          payload("KeyRotated"),
		"BatchEvent":             says("The data of one event, for a reader that asked for dialect=batch."),
		"BatchEvent.type":        eventType,
		"BatchEvent.scope":       {Schema: schema{Pattern: "^node:", Examples: []any{"node:web-1"}}},
		"BatchEvent.key_id":      keyIDHint(),
		"BatchEvent.payload":     payload("KeyRotated"),
		"LegacyEvent":            says("The data of one event, for an agent that registered in the legacy form."),
		"LegacyEvent.event_type": eventType,
		"LegacyEvent.payload":    payload("LegacyKeyRotated"),
	}
}

func signatureHints() map[string]hint {
	return map[string]hint{
		"EventSignature":        says("A signature that many events may share (docs/protocol.md)."),
		"EventSignature.alg":    {Schema: schema{Enum: []any{"ed25519", "ed25519-merkle"}}},
		"EventSignature.key_id": keyIDHint(),
		"EventSignature.leaf":   {Schema: schema{Minimum: openapi.N(0)}},
		"EventSignature.size":   {Schema: schema{Minimum: openapi.N(2)}},
	}
}

func payloadHints() map[string]hint {
	publicKey := hint{Schema: schema{Pattern: "^[A-Za-z0-9+/]{43}=$", Examples: []any{"T1PNoYwrqgwDVLtfmj7L5e0Sq02OEbqHPC8RFhICuUU="}}}
	return map[string]hint{
		"PolicyUpdated":              says("The rules a node has of one policy from now on."),
		"PolicyUpdated.node_id":      {Schema: nodeID},
		"PolicyUpdated.fingerprint":  fingerprint,
		"KeyRotated":                 says("The plane signs with another key from now on; this is signed with the one before."),
		"KeyRotated.key_id":          keyIDHint(),
		"KeyRotated.public_key":      publicKey,
		"KeyRotated.previous_key_id": keyIDHint(),
		"LegacyKeyRotated":           says("The same, for an agent that registered in the legacy form."),
		"LegacyKeyRotated.current":   publicKey,
		"LegacyKeyRotated.previous":  publicKey,
		"NodeStateUpdated":           says("The node must read its whole state."),
		"NodeStateUpdated.node_id":   {Schema: nodeID},
	}
}

func keyIDHint() hint {
	return hint{Schema: schema{
		Component:   "KeyID",
		Description: "A key's id: its algorithm and the first digits of its hash.",
		Pattern:     "^ed25519:[0-9a-f]{16}$", Examples: []any{"ed25519:0011223344556677"},
	}}
}
