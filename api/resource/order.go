package resource

import "github.com/google/uuid"

// NodePolicies are the rules of the policies that match a node, as one list.
type NodePolicies struct {
	NodeID   string     `json:"node_id"`
	Version  uint64     `json:"version" doc:"The log sequence at which the list was read."`
	Lines    []NodeRule `json:"lines" doc:"The rules in the order in which they are tried, egress first."`
	Defaults []Default  `json:"defaults" doc:"What happens to flows that no rule decides, egress first."`
	Warnings []Fault    `json:"warnings,omitempty" doc:"Policies that match the node and do not touch it, and what was assumed; absent when there is none."`
	Refused  *Refused   `json:"refused,omitempty" doc:"Why this is an older list than the facts ask for; absent when it is not."`
}

// NodeRule is a rule in one direction, seen from the node.
type NodeRule struct {
	Direction string `json:"direction"`
	PlacedRule
	Applies bool   `json:"applies" doc:"Whether the rule applies to the node."`
	Reason  string `json:"reason,omitempty" doc:"Why it does not apply; absent where it does."`
}

// Default is what happens to flows of a direction that no rule decides.
type Default struct {
	Direction string      `json:"direction"`
	Verdict   string      `json:"verdict" doc:"Allow or deny."`
	Policies  []PolicyRef `json:"policies" doc:"The policies for which it is deny, in the order of their rules; none where it is allow."`
}

// PolicyRef names a policy.
type PolicyRef struct {
	Policy uuid.UUID `json:"policy" doc:"The id of the policy."`
	Slug   string    `json:"slug" doc:"Its slug."`
}

// PlacedRule is a rule, its place among a node's, and what it says there.
type PlacedRule struct {
	RuleRef
	Slug     string `json:"slug" doc:"The slug of the policy."`
	Tier     string `json:"tier" doc:"Everything in a tier is tried before anything in the next: admin, normal, baseline."`
	Priority uint32 `json:"priority" doc:"Its place within the tier, lower first."`
	Text     string `json:"text" doc:"What it says, seen from the node: action, protocol, ports, peer. For people: it may change."`
}
