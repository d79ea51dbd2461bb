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

// hints say of the resources what their Go types cannot.
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
		"Rule.action":               {Schema: schema{Description: "What happens to the traffic. Log never decides; pass leaves it to the next tier; redirect allows it by way of the node's proxy.", Enum: openapi.OneOfTexts(policy.Allow, policy.Deny, policy.Log, policy.Pass, policy.Redirect)}},
		"Rule.protocol":             {Schema: schema{Description: "The protocol the rule matches.", Enum: openapi.OneOfTexts(policy.TCP, policy.UDP, policy.SCTP, policy.ICMP, policy.Any)}},
		"Rule.source_cidr":          cidr("comes from"),
		"Rule.destination_cidr":     cidr("goes to"),
		"Rule.ports":                says("The ports at the destination."),
		"Rule.source_selector":      peer("source"),
		"Rule.destination_selector": peer("destination"),
		"Rule.proxy_port":           {Schema: schema{Description: "Of a redirect, which needs one: the port of the node's proxy.", Minimum: openapi.N(1), Maximum: openapi.N(65535), Examples: []any{10080}}},
		"Rule.listener_priority":    {Schema: schema{Description: "Of a redirect: among redirects of one level the lowest wins; absent, it comes after all of them.", Minimum: openapi.N(1), Maximum: openapi.N(policy.MaxListenerPriority)}},
		"Rule.auth":                 {Schema: schema{Description: "Of an allow or a redirect: whether both ends must prove who they are. Absent, it is inherited from a broader rule of the same or a higher place.", Enum: openapi.OneOfTexts(policy.AuthRequired, policy.AuthDisabled)}},
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
		"Draft.selector":     says("Whom the policy is for."),
		"Draft.tier":         {Schema: tier},
		"Draft.priority":     {Schema: priority},
		"Draft.default_deny": {Schema: defaultDeny},
		"Draft.rules":        {Schema: rules},

		"Patch":                      says("What a new revision changes; the rest is inherited from the head."),
		"Patch.display_name":         {Schema: displayName},
		"Patch.selector":             says("Whom the policy is for from now on."),
		"Patch.tier":                 {Schema: schema{Description: tier.Description + " Null: set no longer.", Type: []string{"string", "null"}, Enum: append(openapi.OneOfTexts(policy.Admin, policy.Normal, policy.Baseline), nil)}, Optional: true},
		"Patch.priority":             {Schema: schema{Description: priority.Description + " Null: set no longer.", Type: []string{"integer", "null"}, Minimum: openapi.N(0), Maximum: openapi.N(policy.MaxPriority)}, Optional: true},
		"Patch.default_deny":         {Schema: schema{Description: defaultDeny.Description + " Null: true.", Type: []string{"boolean", "null"}}, Optional: true},
		"Patch.rules":                {Schema: rules},
		"Patch.expected_revision_id": {Schema: schema{Description: "The head the change was made for; another head is a conflict. Null asks for none.", Type: []string{"string", "null"}, Format: "uuid"}},

		"Preview":              says("A revision that is not to be published."),
		"Preview.selector":     says("Whom it would be for."),
		"Preview.tier":         {Schema: tier},
		"Preview.priority":     {Schema: priority},
		"Preview.default_deny": {Schema: defaultDeny},
		"Preview.rules":        {Schema: rules},

		"Policy":                  says("A policy. Lists leave its head out."),
		"Policy.id":               uuidOf("the policy"),
		"Policy.project_id":       uuidOf("the project it belongs to"),
		"Policy.slug":             {Schema: slug},
		"Policy.display_name":     {Schema: displayName},
		"Policy.head_revision_id": uuidOf("the revision in force"),
		"Policy.created_at":       logTime("When its first revision was stored"),
		"Policy.updated_at":       logTime("When its head was stored"),
		"Policy.head":             says("The revision in force."),

		"Revision":                says("One published state of a policy. Revisions never change."),
		"Revision.id":             uuidOf("the revision"),
		"Revision.policy_id":      uuidOf("its policy"),
		"Revision.parent_id":      says("The id of the revision it followed; null of the first."),
		"Revision.selector":       says("Whom it is for."),
		"Revision.tier":           {Schema: tier},
		"Revision.priority":       {Schema: priority},
		"Revision.default_deny":   {Schema: defaultDeny},
		"Revision.rules":          {Schema: rules},
		"Revision.created_at":     says("When its author's worker made it."),
		"Revision.created_by":     {Schema: schema{Description: "Who published it.", MaxLength: openapi.N(policy.MaxCreatedBy)}},
		"Revision.correlation_id": {Schema: schema{Description: "What its author said it belongs to.", MaxLength: openapi.N(policy.MaxCreatedBy)}},

		"Diff":               says("The change from one revision's rules to another's; lists are in canonical order."),
		"Diff.added":         says("Rules of the second list alone."),
		"Diff.removed":       says("Rules of the first list alone."),
		"Diff.order":         says("Where the rules stand among those of other policies; absent when that stays."),
		"Diff.reordered":     says("The rules of an ordered policy stay and decide in another order."),
		"OrderChange":        says("Tier, priority and default_deny of both revisions."),
		"OrderChange.before": says("Where the rules stood."),
		"OrderChange.after":  says("Where they stand."),
		"Order":              says("Where a policy's rules stand among those of others."),
		"Order.tier":         {Schema: tier},
		"Order.priority":     {Schema: priority},
		"Order.default_deny": {Schema: defaultDeny},
		"Diff.modified":      says("Rules that match the same and do something else."),
		"Modified":           says("One rule that does something else than before."),
		"Modified.before":    says("The rule as it was."),
		"Modified.after":     says("The rule as it became."),

		"DryRun":                      says("What a revision would do, were it published now."),
		"DryRun.matched_node_ids":     {Schema: schema{Description: "The nodes it would match, by id.", Items: &nodeID}},
		"DryRun.rule_diff":            says("What it would change in the rules of the head."),
		"DryRun.peer_pairs_affected":  says("How many pairs of a source and a destination node would get other rules."),
		"DryRun.warnings":             says("What may be published and is likely not meant; docs/lint.md lists the codes."),
		"DryRun.unreachable_node_ids": {Schema: schema{Description: "Matched nodes without an address, by id.", Items: &nodeID}},

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
		"Node.project_id":      uuidOf("the project it belongs to"),
		"Node.labels":          {Schema: labels},
		"Node.addresses":       {Schema: addresses},
		"Node.version":         says("The log sequence of the event that gave it these facts."),
		"NodePage":             says("A page of nodes."),
		"NodePage.items":       says("Nodes by id."),
		"NodePage.next_cursor": nextCursor,

		"BatchResult":           says("What became of the lines of a batch."),
		"BatchResult.applied":   {Schema: schema{Description: "Lines that changed a node.", Minimum: openapi.N(0)}},
		"BatchResult.unchanged": {Schema: schema{Description: "Lines that said what was so already.", Minimum: openapi.N(0)}},
		"BatchResult.rejected":  says("Lines that were refused, by number."),
		"RejectedLine":          says("A line that changed nothing."),
		"RejectedLine.line":     {Schema: schema{Description: "Its number, from 1.", Minimum: openapi.N(1)}},
		"RejectedLine.id":       says("The node it is about; empty when it was too broken to name one."),
		"RejectedLine.code":     says("Why, for programs: a code of a problem or of the fold."),
		"RejectedLine.detail":   says("Why, for people."),
	}
}

func agentHints() map[string]hint {
	unowned := hint{Schema: schema{Description: "Null until a part of the plane owns it.", Type: []string{"object", "null"}}}
	list := says("Empty until a part of the plane owns it.")
	eventID := says("Names the announcement: node, policy or artifact, and log sequence, joined by dots.")
	eventType := hint{Schema: schema{Description: "What happened.", Enum: []any{"policy_updated", "artifact_updated", "node_state_updated", "signing_key_rotated"}}}
	issuedAt := says("When it was signed, which is when it was sent.")
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
	expires := says("When the key before counts for nothing any more.")
	signature := says("Base64 of the ed25519 signature over the compact JSON of the members before it, in their order.")
	return map[string]hint{
		"NodeState":                says("A node's whole desired state. Equal states have equal bytes."),
		"NodeState.peers":          list,
		"NodeState.reachability":   unowned,
		"NodeState.policy":         says("What the node enforces; null when no policy matches it."),
		"NodeState.bridge":         unowned,
		"NodeState.state":          unowned,
		"NodeState.reports":        unowned,
		"NodeState.executions":     list,
		"NodeState.sessions":       unowned,
		"NodePolicy":               says("The rules of all policies that match a node, by ascending policy id."),
		"NodePolicy.revision_id":   uuidOf("the first of the revisions"),
		"NodePolicy.fingerprint":   fingerprint,
		"NodePolicy.rules_omitted": says("How many rules of the policies are left out because this block cannot express them; absent when none are. GET …/datapath has them all."),
		"NodePolicy.rules":         says("Each policy's rules in canonical order, one policy after the other."),

		"RulesetItems":         says("A node's rulesets."),
		"RulesetItems.items":   says("Rulesets by policy id."),
		"Ruleset":              says("One policy's compiled rules on one node."),
		"Ruleset.policy_id":    uuidOf("the policy"),
		"Ruleset.revision_id":  uuidOf("the revision it was compiled from"),
		"Ruleset.fingerprint":  fingerprint,
		"Ruleset.rule_payload": says("The rules as compact JSON, verbatim: the text that the fingerprint is of."),
		"Ruleset.compiled_at":  logTime("When that revision was stored"),

		"Event":                               says("The data of one event of a node's stream."),
		"Event.id":                            eventID,
		"Event.type":                          eventType,
		"Event.scope":                         {Schema: schema{Description: "node: and the node's id.", Pattern: "^node:", Examples: []any{"node:web-1"}}},
		"Event.key_id":                        keyIDHint(),
		"Event.issued_at":                     issuedAt,
		"Event.payload":                       payload("KeyRotated"),
		"Event.signature":                     signature,
		"BatchEvent":                          says("The data of one event, for a reader that asked for dialect=batch."),
		"BatchEvent.id":                       eventID,
		"BatchEvent.type":                     eventType,
		"BatchEvent.scope":                    {Schema: schema{Description: "node: and the node's id.", Pattern: "^node:", Examples: []any{"node:web-1"}}},
		"BatchEvent.key_id":                   keyIDHint(),
		"BatchEvent.issued_at":                issuedAt,
		"BatchEvent.payload":                  payload("KeyRotated"),
		"BatchEvent.signature":                says("Over the compact JSON of the members before it, in their order; or over a run of such texts."),
		"EventSignature":                      says("A signature that many events may share (docs/protocol.md)."),
		"EventSignature.alg":                  {Schema: schema{Description: "ed25519: of this event alone; ed25519-merkle: of the root over a run, in which the event has its place.", Enum: []any{"ed25519", "ed25519-merkle"}}},
		"EventSignature.key_id":               keyIDHint(),
		"EventSignature.leaf":                 {Schema: schema{Description: "The event's place in the run, from 0.", Minimum: openapi.N(0)}},
		"EventSignature.path":                 says("Base64 of the hashes from the leaf up, 32 bytes each."),
		"EventSignature.size":                 {Schema: schema{Description: "How many events are in the run.", Minimum: openapi.N(2)}},
		"EventSignature.value":                says("Base64 of the ed25519 signature."),
		"LegacyEvent":                         says("The data of one event, for an agent that registered in the legacy form."),
		"LegacyEvent.event_type":              eventType,
		"LegacyEvent.event_id":                eventID,
		"LegacyEvent.issued_at":               issuedAt,
		"LegacyEvent.nonce":                   says("Another one for each delivery."),
		"LegacyEvent.payload":                 payload("LegacyKeyRotated"),
		"LegacyEvent.signature":               signature,
		"PolicyUpdated":                       says("The rules a node has of one policy from now on."),
		"PolicyUpdated.node_id":               {Schema: nodeID},
		"PolicyUpdated.policy_id":             uuidOf("the policy"),
		"PolicyUpdated.revision_id":           uuidOf("the head of the policy, or of a deleted one its last"),
		"PolicyUpdated.fingerprint":           fingerprint,
		"PolicyUpdated.rules_omitted":         says("How many of the policy's rules are left out because the node contract cannot express them; absent when none are."),
		"PolicyUpdated.rules":                 says("The rules in canonical order; none when the policy is no longer the node's."),
		"KeyRotated":                          says("The plane signs with another key from now on; this is signed with the one before."),
		"KeyRotated.key_id":                   keyIDHint(),
		"KeyRotated.public_key":               publicKey("the new key"),
		"KeyRotated.previous_key_id":          keyIDHint(),
		"KeyRotated.transition_expires":       expires,
		"LegacyKeyRotated":                    says("The same, for an agent that registered in the legacy form."),
		"LegacyKeyRotated.current":            publicKey("the new key"),
		"LegacyKeyRotated.previous":           publicKey("the key before"),
		"LegacyKeyRotated.transition_expires": expires,
		"NodeStateUpdated":                    says("The node must read its whole state."),
		"NodeStateUpdated.node_id":            {Schema: nodeID},
		"NodeStateUpdated.reason":             says("Why."),
	}
}

func keyIDHint() hint {
	return hint{Schema: schema{
		Description: "Names a key: its algorithm and the first digits of the SHA-256 of its public half.",
		Pattern:     "^ed25519:[0-9a-f]{16}$", Examples: []any{"ed25519:0011223344556677"},
	}}
}
