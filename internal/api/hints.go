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
	fingerprint = hint{Schema: schema{
		Component:   "Fingerprint",
		Description: "SHA-256 of the compiled rules, in base64; of no rules, of [].",
		Pattern:     "^[A-Za-z0-9+/]{43}=$",
		Examples:    []any{"T1PNoYwrqgwDVLtfmj7L5e0Sq02OEbqHPC8RFhICuUU="},
	}}
	nodeID = schema{
		Component:   "NodeID",
		Description: "A node's id, a DNS label.",
		Pattern:     "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", Examples: []any{"web-1"}, // which says how long it is, too
	}
	slug = schema{
		Description: "A name for people and files, unique among the live policies of a project.",
		Pattern:     "^[a-z][a-z0-9-]*$", MaxLength: openapi.N(policy.MaxSlug), Examples: []any{"web"},
	}
	displayName = schema{Description: "A name for people.", MaxLength: openapi.N(policy.MaxDisplayName)}
	rules       = schema{
		Description: "What to do with traffic of the nodes that the selector matches. Each rule says whom with, by address or by labels.",
		MinItems:    openapi.N(1), MaxItems: openapi.N(policy.MaxRules),
	}
	tier = schema{
		Component:   "Tier",
		Description: "Everything in a tier is asked before anything in the next: admin, normal, baseline. A policy with a tier or a priority is ordered: its rules decide in the order they are written in.",
		Enum:        openapi.OneOfTexts(policy.Admin, policy.Normal, policy.Baseline),
	}
	priority = schema{
		Component:   "Priority",
		Description: "The policy's place within its tier, lower first; 1000 when it has a tier alone.",
		Minimum:     openapi.N(0), Maximum: openapi.N(policy.MaxPriority), Examples: []any{100},
	}
	defaultDeny = schema{Component: "DefaultDeny", Description: "False: the policy has no part in denying what no rule matches. Absent, it is true."}
	enforcement = schema{
		Component:   "Mode",
		Description: "Audit: no rule of the policy is in force. Nodes that can count do count what the policy would deny, if it were in force. Absent, it is enforce.",
		Enum:        openapi.OneOfTexts(policy.Enforce, policy.Audit),
	}
	labels = schema{
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
	for _, part := range []map[string]hint{
		ruleHints(), draftHints(), policyHints(), nodeHints(), stateHints(), eventHints(), signatureHints(), payloadHints(), datapathHints(), planeHints(), shareHints(), keyHints(),
		convergenceHints(), recoveryHints(), artifactHints(), releaseHints(), admissionHints(), admissionPolicyHints(), alphaHints(), accessHints(), signInHints(), projectHints(), principalHints(), registerHints(), problemHints(),
	} {
		for name, h := range part {
			all[name] = h
		}
	}
	return all
}
