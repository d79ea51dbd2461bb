package api

import (
	"github.com/edictdev/edict/internal/api/openapi"
	"github.com/edictdev/edict/policy"
)

// count is a number of things.
var count = hint{Schema: schema{Minimum: openapi.N(0)}}

func planeHints() map[string]hint {
	return map[string]hint{
		"Status":                    says("The plane as one worker sees it."),
		"Status.nodes":              count,
		"Status.identities":         count,
		"Status.policies":           count,
		"Status.durability":         {Schema: schema{Enum: []any{"strict", "relaxed", "unknown"}}},
		"Status.digest":             {Schema: schema{Pattern: "^[0-9a-f]{64}$"}},
		"LogStatus":                 says("The log's birth, its size, and how it grows."),
		"LogStatus.bytes_per_event": count,
		"LogStatus.full_in_seconds": count,
		"Worker":                    says("A process that folds the log."),
		"Partition":                 says("A part of the nodes."),
		"Partition.id":              count,
		"Past":                      says("How far back this worker can say what nodes missed."),
		"Past.records":              count,
		"Past.bytes":                count,

		"EventChange":  says("What an event changed."),
		"HeadChange":   says("The change of a policy's head."),
		"Selectors":    says("Whom a policy is for, before a change and from then on."),
		"NodeChange":   says("The change of a node's facts."),
		"FleetSample":  says("How many nodes stood where at a moment, as a worker saw it."),
		"FleetHistory": says("How many nodes stood where in a worker's last hour."),

		"RejectionPage":             says("A page of rejected events."),
		"RejectionPage.items":       says("Rejected events by log sequence."),
		"RejectionPage.next_cursor": says("The sequence to ask the next page with, as after; null on the last page."),
		"Rejection":                 says("An event of the log that the fold refused."),
	}
}

func projectHints() map[string]hint {
	all := map[string]hint{
		"Quota":                   says("What a project may have and add. What is 0, or absent, is not bounded."),
		"ProjectUse":              says("What a project has and took."),
		"Project":                 says("A project with its quota, and what it uses of it."),
		"ProjectChange":           says("Whether a project is to be archived."),
		"ProjectPage":             says("A page of projects."),
		"ProjectPage.items":       says("Projects by id."),
		"ProjectPage.next_cursor": nextCursor,
	}
	for _, f := range policy.QuotaFields {
		all["Quota."+f.Name] = hint{Schema: schema{Minimum: openapi.N(0), Maximum: openapi.N(policy.MaxQuota)}}
	}
	return all
}

func shareHints() map[string]hint {
	return map[string]hint{
		"Shares":           says("What projects took of the log lately, with events good and bad, as the fold of this worker counts it."),
		"Shares.hours":     count,
		"Shares.over":      count,
		"Share":            says("What one project took of the log."),
		"Share.project_id": {Schema: schema{Format: "uuid"}},
	}
}

func keyHints() map[string]hint {
	return map[string]hint{
		"KeyItems":       says("The plane's public keys."),
		"KeyItems.items": says("Keys, current and still trusted."),
		"Key":            says("A public key of the plane."),
		"Key.key_id":     keyIDHint(),
		"Key.alg":        {Schema: schema{Enum: []any{"ed25519"}}},
		"Key.public_key": {Schema: schema{Pattern: "^[A-Za-z0-9+/]{43}=$", Examples: []any{"T1PNoYwrqgwDVLtfmj7L5e0Sq02OEbqHPC8RFhICuUU="}}},
		"Key.status":     {Schema: schema{Enum: []any{"current", "previous"}}},

		"Readiness":        says("A worker that is ready, check by check."),
		"Readiness.status": {Schema: schema{Enum: []any{"ready"}}},
		"Check":            says("One thing a worker needs in order to serve."),
		"Check.status":     {Schema: schema{Enum: []any{"ok", "failed", "info"}}},
	}
}

func problemHints() map[string]hint {
	return map[string]hint{
		"Problem":        says("What went wrong (RFC 9457)."),
		"Problem.type":   {Schema: schema{Format: "uri-reference", Examples: []any{"/errors/policy_not_found"}}},
		"Problem.status": {Schema: schema{Minimum: openapi.N(400), Maximum: openapi.N(599)}},
		"Problem.code":   {Schema: schema{Pattern: "^[a-z_]+$", Examples: []any{"internal"}}},
		"Fault":          says("One fault of an input."),
		"Warning":        says("What a policy may say and likely does not mean."),
		"Fault.code":     {Schema: schema{Pattern: "^[a-z_]+$", Examples: []any{"required"}}},
	}
}
