package api

import (
	"github.com/edictdev/edict/internal/api/openapi"
	"github.com/edictdev/edict/policy"
)

type (
	hint   = openapi.Hint
	schema = openapi.Schema
)

// says is a hint of nothing but words.
func says(text string) hint { return hint{Schema: schema{Description: text}} }

// Texts that occur in several places.
var (
	uuidOf      = func(what string) hint { return says("The id of " + what + ".") }
	logTime     = func(what string) hint { return says(what + ", by the log's clock.") }
	fingerprint = hint{Schema: schema{
		Description: "SHA-256 of the compiled rules, in base64; of no rules it is that of the two characters [].",
		Pattern:     "^[A-Za-z0-9+/]{43}=$", MinLength: openapi.N(44), MaxLength: openapi.N(44),
		Examples: []any{"T1PNoYwrqgwDVLtfmj7L5e0Sq02OEbqHPC8RFhICuUU="},
	}}
	nodeID = schema{
		Description: "A node's id, a DNS label: unique in the plane.",
		Pattern:     "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", MinLength: openapi.N(1), MaxLength: openapi.N(policy.MaxNodeID),
		Examples: []any{"web-1"},
	}
	slug = schema{
		Description: "A name for people and files, unique among the live policies of a project.",
		Pattern:     "^[a-z][a-z0-9-]*$", MinLength: openapi.N(1), MaxLength: openapi.N(policy.MaxSlug), Examples: []any{"web"},
	}
	displayName = schema{Description: "A name for people.", MaxLength: openapi.N(policy.MaxDisplayName)}
	rules       = schema{
		Description: "What to do with traffic between the nodes that the selector names.",
		MinItems:    openapi.N(1), MaxItems: openapi.N(policy.MaxRules),
	}
	tier = schema{
		Description: "Everything in a tier is asked before anything in the next: admin, normal, baseline. A policy with a tier or a priority is ordered: its rules decide in the order they are written in.",
		Enum:        openapi.OneOfTexts(policy.Admin, policy.Normal, policy.Baseline),
	}
	priority = schema{
		Description: "The policy's place within its tier, lower first; 1000 when it has a tier alone.",
		Minimum:     openapi.N(0), Maximum: openapi.N(policy.MaxPriority), Examples: []any{100},
	}
	defaultDeny = schema{Description: "False: the policy decides what its rules match, and has no part in denying what nothing matches. Absent, it is true."}
	labels      = schema{
		Description:          "What selectors match: keys and values as Kubernetes has them.",
		MaxProperties:        openapi.N(policy.MaxLabels),
		PropertyNames:        &schema{Type: "string", MinLength: openapi.N(1), MaxLength: openapi.N(policy.MaxLabelPrefix + 1 + policy.MaxLabelName)},
		AdditionalProperties: &schema{Type: "string", MaxLength: openapi.N(policy.MaxLabelValue)},
		Examples:             []any{map[string]string{"role": "web"}},
	}
	addresses = schema{
		Description: "The node's IPv4 and IPv6 addresses.",
		MaxItems:    openapi.N(policy.MaxAddresses),
		Items:       &schema{Description: "An address without zone or prefix length.", Format: "ip", Examples: []any{"10.0.0.1"}},
	}
	nextCursor = says("What to ask the next page with; null on the last page.")
)

// hints say of the resources what neither their Go types nor the doc tags of their
// fields can: limits, closed sets, and what a type is for.
func hints() map[string]hint {
	all := map[string]hint{}
	for _, part := range []map[string]hint{ruleHints(), policyHints(), nodeHints(), agentHints(), datapathHints(), planeHints(), convergenceHints(), recoveryHints(), artifactHints(), admissionHints(), accessHints(), registerHints(), problemHints()} {
		for name, h := range part {
			all[name] = h
		}
	}
	return all
}

func ruleHints() map[string]hint {
	cidr := func(side string) hint {
		return hint{Schema: schema{Description: "The prefix the traffic " + side + ", masked, of the family of the other one; absent where a selector stands in its place.", Format: "cidr", Examples: []any{"10.0.0.0/8"}}}
	}
	port := func(text string) hint {
		return hint{Schema: schema{Description: text, Minimum: openapi.N(1), Maximum: openapi.N(65535), Examples: []any{5432}}}
	}
	selector := func(side string) hint {
		return hint{Schema: schema{
			Description: "The nodes at the " + side + ": clauses k=v, k!=v, k in (a,b), k and !k, all of which hold, joined by commas.",
			MinLength:   openapi.N(1), MaxLength: openapi.N(policy.MaxSelectorText), Examples: []any{"role=web,!retired"},
		}}
	}
	peer := func(side string) hint {
		h := selector(side)
		h.Description = "In place of " + side + "_cidr: of the nodes at the " + side + ", those that it matches. The clauses are read in any order and shown sorted."
		return h
	}
	somePorts := openapi.Properties{{Name: "ports", Schema: &schema{}}}
	return map[string]hint{
		"Ports":      says("An inclusive range of ports."),
		"Ports.from": port("The first port."),
		"Ports.to":   port("The last port, not below the first."),
		"Rule": {Schema: schema{
			Description: "One line of a policy. It names ports exactly when its protocol has them.",
			If: &schema{Properties: openapi.Properties{
				{Name: "protocol", Schema: &schema{Enum: openapi.OneOfTexts(policy.TCP, policy.UDP, policy.SCTP)}},
			}},
			Then: &schema{Properties: somePorts, Required: []string{"ports"}},
			Else: &schema{Not: &schema{Properties: somePorts, Required: []string{"ports"}}},
		}},
		"Rule.action":               {Schema: schema{Enum: openapi.OneOfTexts(policy.Allow, policy.Deny, policy.Log, policy.Pass, policy.Redirect)}},
		"Rule.protocol":             {Schema: schema{Enum: openapi.OneOfTexts(policy.TCP, policy.UDP, policy.SCTP, policy.ICMP, policy.Any)}},
		"Rule.source_cidr":          cidr("comes from"),
		"Rule.destination_cidr":     cidr("goes to"),
		"Rule.source_selector":      peer("source"),
		"Rule.destination_selector": peer("destination"),
		"Rule.proxy_port":           {Schema: schema{Minimum: openapi.N(1), Maximum: openapi.N(65535), Examples: []any{10080}}},
		"Rule.listener_priority":    {Schema: schema{Minimum: openapi.N(1), Maximum: openapi.N(policy.MaxListenerPriority)}},
		"Rule.auth":                 {Schema: schema{Enum: openapi.OneOfTexts(policy.AuthRequired, policy.AuthDisabled)}},
		"Selector":                  says("The nodes that take part in a policy: those that match either side."),
		"Selector.source":           selector("source"),
		"Selector.destination":      selector("destination"),
	}
}

func policyHints() map[string]hint {
	return map[string]hint{
		"Draft":              says("A policy to publish."),
		"Draft.slug":         {Schema: slug},
		"Draft.display_name": {Schema: displayName},
		"Draft.tier":         {Schema: tier},
		"Draft.priority":     {Schema: priority},
		"Draft.default_deny": {Schema: defaultDeny},
		"Draft.rules":        {Schema: rules},

		"Patch":                      says("What a new revision changes; the rest is inherited from the head."),
		"Patch.display_name":         {Schema: displayName},
		"Patch.tier":                 {Schema: schema{Description: tier.Description + " Null: set no longer.", Type: []string{"string", "null"}, Enum: append(openapi.OneOfTexts(policy.Admin, policy.Normal, policy.Baseline), nil)}, Optional: true},
		"Patch.priority":             {Schema: schema{Description: priority.Description + " Null: set no longer.", Type: []string{"integer", "null"}, Minimum: openapi.N(0), Maximum: openapi.N(policy.MaxPriority)}, Optional: true},
		"Patch.default_deny":         {Schema: schema{Description: defaultDeny.Description + " Null: true.", Type: []string{"boolean", "null"}}, Optional: true},
		"Patch.rules":                {Schema: rules},
		"Patch.expected_revision_id": {Schema: schema{Type: []string{"string", "null"}, Format: "uuid"}},

		"Preview":              says("A revision that is not to be published."),
		"Preview.tier":         {Schema: tier},
		"Preview.priority":     {Schema: priority},
		"Preview.default_deny": {Schema: defaultDeny},
		"Preview.rules":        {Schema: rules},

		"Policy":              says("A policy. Lists leave its head out."),
		"Policy.slug":         {Schema: slug},
		"Policy.display_name": {Schema: displayName},

		"Revision":                says("One published state of a policy. Revisions never change."),
		"Revision.tier":           {Schema: tier},
		"Revision.priority":       {Schema: priority},
		"Revision.default_deny":   {Schema: defaultDeny},
		"Revision.rules":          {Schema: rules},
		"Revision.created_by":     {Schema: schema{MaxLength: openapi.N(policy.MaxCreatedBy)}},
		"Revision.correlation_id": {Schema: schema{MaxLength: openapi.N(policy.MaxCreatedBy)}},

		"Diff":           says("The change from one revision's rules to another's; lists are in canonical order."),
		"OrderChange":    says("Tier, priority and default_deny of both revisions."),
		"Order":          says("Where a policy's rules stand among those of others."),
		"Order.tier":     {Schema: tier},
		"Order.priority": {Schema: priority},
		"Modified":       says("One rule that does something else than before."),

		"DryRun":                      says("What a revision would do, were it published now."),
		"DryRun.matched_node_ids":     {Schema: schema{Items: &nodeID}},
		"DryRun.unreachable_node_ids": {Schema: schema{Items: &nodeID}},

		"PolicyPage":               says("A page of policies."),
		"PolicyPage.items":         says("Policies by id, without their heads."),
		"PolicyPage.next_cursor":   nextCursor,
		"RevisionPage":             says("A page of revisions."),
		"RevisionPage.items":       says("Revisions, newest first."),
		"RevisionPage.next_cursor": nextCursor,
	}
}

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

		"Node":                 says("A registered node."),
		"Node.id":              {Schema: nodeID},
		"Node.labels":          {Schema: labels},
		"Node.addresses":       {Schema: addresses},
		"NodePage":             says("A page of nodes."),
		"NodePage.items":       says("Nodes by id."),
		"NodePage.next_cursor": nextCursor,

		"BatchResult":           says("What became of the lines of a batch."),
		"BatchResult.applied":   {Schema: schema{Minimum: openapi.N(0)}},
		"BatchResult.unchanged": {Schema: schema{Minimum: openapi.N(0)}},
		"RejectedLine":          says("A line that changed nothing."),
		"RejectedLine.line":     {Schema: schema{Minimum: openapi.N(1)}},
	}
}

func agentHints() map[string]hint {
	unowned := hint{Schema: schema{Description: "Null until a part of the plane owns it.", Type: []string{"object", "null"}}}
	eventType := hint{Schema: schema{Description: "What happened.", Enum: []any{"policy_updated", "artifact_updated", "node_state_updated", "signing_key_rotated"}}}
	payload := func(rotated string) hint {
		h := hint{Schema: schema{Description: "What it is about, by type."}}
		for _, name := range []string{"PolicyUpdated", "ArtifactUpdated", "NodeStateUpdated", rotated} {
			h.OneOf = append(h.OneOf, &schema{Ref: "#/components/schemas/" + name})
		}
		return h
	}
	publicKey := func(whose string) hint {
		return hint{Schema: schema{Description: "Base64 of the 32 bytes of " + whose + ".", Pattern: "^[A-Za-z0-9+/]{43}=$", Examples: []any{"T1PNoYwrqgwDVLtfmj7L5e0Sq02OEbqHPC8RFhICuUU="}}}
	}
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

		"Event":                      says("The data of one event of a node's stream."),
		"Event.type":                 eventType,
		"Event.scope":                {Schema: schema{Pattern: "^node:", Examples: []any{"node:web-1"}}},
		"Event.key_id":               keyIDHint(),
		"Event.payload":              payload("KeyRotated"),
		"BatchEvent":                 says("The data of one event, for a reader that asked for dialect=batch."),
		"BatchEvent.type":            eventType,
		"BatchEvent.scope":           {Schema: schema{Pattern: "^node:", Examples: []any{"node:web-1"}}},
		"BatchEvent.key_id":          keyIDHint(),
		"BatchEvent.payload":         payload("KeyRotated"),
		"EventSignature":             says("A signature that many events may share (docs/protocol.md)."),
		"EventSignature.alg":         {Schema: schema{Enum: []any{"ed25519", "ed25519-merkle"}}},
		"EventSignature.key_id":      keyIDHint(),
		"EventSignature.leaf":        {Schema: schema{Minimum: openapi.N(0)}},
		"EventSignature.size":        {Schema: schema{Minimum: openapi.N(2)}},
		"LegacyEvent":                says("The data of one event, for an agent that registered in the legacy form."),
		"LegacyEvent.event_type":     eventType,
		"LegacyEvent.payload":        payload("LegacyKeyRotated"),
		"PolicyUpdated":              says("The rules a node has of one policy from now on."),
		"PolicyUpdated.node_id":      {Schema: nodeID},
		"PolicyUpdated.fingerprint":  fingerprint,
		"KeyRotated":                 says("The plane signs with another key from now on; this is signed with the one before."),
		"KeyRotated.key_id":          keyIDHint(),
		"KeyRotated.public_key":      publicKey("the new key"),
		"KeyRotated.previous_key_id": keyIDHint(),
		"LegacyKeyRotated":           says("The same, for an agent that registered in the legacy form."),
		"LegacyKeyRotated.current":   publicKey("the new key"),
		"LegacyKeyRotated.previous":  publicKey("the key before"),
		"NodeStateUpdated":           says("The node must read its whole state."),
		"NodeStateUpdated.node_id":   {Schema: nodeID},
	}
}

func keyIDHint() hint {
	return hint{Schema: schema{
		Description: "Names a key: its algorithm and the first digits of the SHA-256 of its public half.",
		Pattern:     "^ed25519:[0-9a-f]{16}$", Examples: []any{"ed25519:0011223344556677"},
	}}
}
