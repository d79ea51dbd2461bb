package api

import (
	"github.com/edictdev/edict/internal/api/openapi"
	"github.com/edictdev/edict/policy"
)

func accessHints() map[string]hint {
	id := hint{Schema: schema{Description: "A principal's id, a DNS label.", Pattern: nodeID.Pattern, MinLength: openapi.N(1), MaxLength: openapi.N(policy.MaxNodeID), Examples: []any{"ana"}}}
	return map[string]hint{
		"PrincipalDocument": says("What a principal is and what proves it. What is absent it does not have."),
		"Token":             says("A bearer token as the plane knows it: by its hash."),
		"Token.sha256":      {Schema: schema{Pattern: "^[0-9a-f]{64}$"}},

		"OIDCIdentity": says("A subject as an OpenID Connect issuer names it."),

		"PrincipalPage":             says("A page of principals."),
		"PrincipalPage.items":       says("Principals by id."),
		"PrincipalPage.next_cursor": nextCursor,
		"Principal":                 says("A principal of the log with its relations."),
		"Principal.id":              id,

		"Relation": says("A relation to give."),
		"Grant":    says("A relation that somebody gave."),

		"Bootstrap":                 says("A one-time token for the registration of a node, as the plane knows it: by its hash."),
		"Bootstrap.sha256":          {Schema: schema{Pattern: "^[0-9a-f]{64}$"}},
		"Bootstrap.resource_handle": {Schema: schema{MaxLength: openapi.N(policy.MaxResource)}},
		"Bootstrap.state":           {Schema: schema{Enum: openapi.OneOfTexts(policy.BootstrapConsumed, policy.BootstrapRevoked)}},

		"Registration":            says("How a node's agent registered last."),
		"Registration.dialect":    {Schema: schema{Enum: openapi.OneOfTexts(policy.DialectCurrent, policy.DialectLegacy)}},
		"Registration.public_key": {Schema: schema{Pattern: "^[0-9a-f]{64}$"}},

		"Self": says("Whom the plane takes the caller for."),

		"SessionLink": says("A link that opens the console in a browser, once."),
		"SessionCode": says("The code of a link to the console."),
		"Session":     says("A browser's session, whose cookie is in Set-Cookie."),

		"AuditEntryPage":             says("A page of the log's events."),
		"AuditEntryPage.items":       says("Events by log sequence."),
		"AuditEntryPage.next_cursor": says("The sequence to ask the next page with, as after; null on the last page."),
		"AuditEntry":                 says("An event of the log and who wrote it."),
		"LogEvent":                   says("An event of the log, as it was folded."),
		"LogEvent.via":               {Schema: schema{Enum: []any{viaNATS}}},
		"LogEvent.verdict":           {Schema: schema{Enum: []any{verdictApplied, verdictRejected}}},
		"LogEnd":                     says("Where a stream of events met the log's end."),
		"LogMoment":                  says("The log's end as it was at a moment."),
		"AuditEntry.via":             {Schema: schema{Enum: []any{viaNATS}}},
	}
}

// principalHints are those of a principal's members in its two forms.
func principalHints() map[string]hint {
	all := map[string]hint{}
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
