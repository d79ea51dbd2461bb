package api

import (
	"github.com/edictdev/edict/internal/api/openapi"
	"github.com/edictdev/edict/policy"
)

func accessHints() map[string]hint {
	const relation = "What the principal is to what: object#name, such as project:<uuid>#operator."
	id := hint{Schema: schema{Description: "A principal's id, a DNS label.", Pattern: nodeID.Pattern, MinLength: openapi.N(1), MaxLength: openapi.N(policy.MaxNodeID), Examples: []any{"ana"}}}
	all := map[string]hint{
		"PrincipalDocument": says("What a principal is and what proves it. What is absent it does not have."),
		"Token":             says("A bearer token as the plane knows it: by its hash."),
		"Token.id":          says("Names it, to be revoked by."),
		"Token.sha256":      {Schema: schema{Description: "SHA-256 of the token's text.", Pattern: "^[0-9a-f]{64}$"}},
		"Token.expires_at":  says("When it is worth nothing any more; absent: never."),

		"OIDCIdentity":         says("A subject as an OpenID Connect issuer names it."),
		"OIDCIdentity.issuer":  says("The issuer's URL, as its tokens have it."),
		"OIDCIdentity.subject": says("The subject's name there."),

		"PrincipalPage":             says("A page of principals."),
		"PrincipalPage.items":       says("Principals by id."),
		"PrincipalPage.next_cursor": nextCursor,
		"Principal":                 says("A principal of the log with its relations."),
		"Principal.id":              id,
		"Principal.relations":       says("Its relations, by text."),
		"Principal.version":         says("Log sequence of the event that gave what it is; its ETag."),
		"Principal.created_by":      says("Who wrote that."),
		"Principal.created_at":      logTime("When it was made"),
		"Principal.updated_at":      logTime("When it was last written"),

		"Relation":          says("A relation to give."),
		"Relation.relation": says(relation),
		"Grant":             says("A relation that somebody gave."),
		"Grant.relation":    says(relation),
		"Grant.seq":         says("The log sequence at which it was given."),
		"Grant.created_by":  says("Who gave it."),

		"Bootstrap":                 says("A one-time token for the registration of a node, as the plane knows it: by its hash."),
		"Bootstrap.id":              says("Names it, to be revoked by."),
		"Bootstrap.sha256":          {Schema: schema{Description: "SHA-256 of the token's text.", Pattern: "^[0-9a-f]{64}$"}},
		"Bootstrap.project_id":      uuidOf("the node's project"),
		"Bootstrap.resource_handle": {Schema: schema{Description: "What the agent must call itself; absent: anything.", MaxLength: openapi.N(policy.MaxResource)}},
		"Bootstrap.expires_at":      says("When it is worth nothing any more, by the log's clock."),
		"Bootstrap.state":           {Schema: schema{Description: "What became of it; absent: it can be used.", Enum: openapi.OneOfTexts(policy.BootstrapConsumed, policy.BootstrapRevoked)}},

		"Registration":              says("How a node's agent registered last."),
		"Registration.token_id":     says("The bearer token that it got, among the principal's tokens."),
		"Registration.bootstrap_id": says("The bootstrap token that it gave."),
		"Registration.dialect":      {Schema: schema{Description: "The form of event envelopes that the agent reads.", Enum: openapi.OneOfTexts(policy.DialectCurrent, policy.DialectLegacy)}},
		"Registration.public_key":   {Schema: schema{Description: "The agent's X25519 public key.", Pattern: "^[0-9a-f]{64}$"}},

		"Self":           says("Whom the plane takes the caller for."),
		"Self.id":        says("The principal; anonymous where access is not configured and the caller gave no name."),
		"Self.kind":      says("What it is; absent where access is not configured."),
		"Self.relations": says("Its relations, those of the plane's file among them."),

		"AuditEntryPage":                    says("A page of the log's events."),
		"AuditEntryPage.items":              says("Events by log sequence."),
		"AuditEntryPage.next_cursor":        says("The sequence to ask the next page with, as after; null on the last page."),
		"AuditEntry":                        says("An event of the log and who wrote it."),
		"AuditEntry.seq":                    says("Its log sequence."),
		"AuditEntry.time":                   logTime("When it was stored"),
		"AuditEntry.principal":              says("Who wrote it by way of the API; absent when nobody said, or it was appended directly."),
		"AuditEntry.correlation_id":         says("The request that it came by; absent when it was appended directly."),
		"AuditEntry.via":                    {Schema: schema{Description: "nats: a producer appended it over NATS; absent: it came by way of the API.", Enum: []any{viaNATS}}},
		"AuditEntry.type":                   says("Its type, as its header has it; over NATS, as its body has it where that can be read."),
		"AuditEntry.claimed_principal":      says("Whom an event over NATS names as the one who caused it; nobody vouches for it."),
		"AuditEntry.claimed_correlation_id": says("The request that an event over NATS names; nobody vouches for it."),
		"AuditEntry.subject":                says("The subject it stands on: what it is about."),
		"AuditEntry.event_id":               says("Its own id, likewise."),
		"AuditEntry.rejected":               says("The code with which the fold refused it, so that it changed nothing; absent when it did not, or has not come to it."),
		"AuditEntry.detail":                 says("What it gave or took, where the subject does not say: a relation; the plane's key before and the new one."),
	}
	for _, of := range []string{"PrincipalDocument", "Principal"} {
		all[of+".kind"] = hint{Schema: schema{Description: "What it is.", Enum: openapi.OneOfTexts(policy.Person, policy.Service, policy.Agent)}}
		all[of+".display_name"] = hint{Schema: displayName}
		all[of+".tokens"] = hint{Schema: schema{Description: "Its bearer tokens.", MaxItems: openapi.N(policy.MaxTokens)}}
		all[of+".spiffe_ids"] = hint{Schema: schema{Description: "SPIFFE IDs of its client certificates.", MaxItems: openapi.N(policy.MaxTokens)}}
		all[of+".bootstrap"] = hint{Schema: schema{Description: "Its bootstrap tokens, of a node.", MaxItems: openapi.N(policy.MaxTokens)}}
		all[of+".registration"] = says("How its agent registered, of a node.")
		all[of+".oidc"] = hint{Schema: schema{Description: "Its identities at issuers.", MaxItems: openapi.N(policy.MaxTokens)}}
	}
	return all
}
