package api

import "github.com/edictdev/edict/internal/api/openapi"

func registerHints() map[string]hint {
	const base64Of32 = "^[A-Za-z0-9+/]{43}=$"
	open := func(text string) hint { return hint{Schema: schema{Description: text, AdditionalProperties: true}} }
	return map[string]hint{
		"RegisterRequest":            open("How an agent asks to be a node. Current agents send bootstrap_token, nonce and project_id, older ones token; members that are not here are not read."),
		"RegisterRequest.nonce":      {Schema: schema{MaxLength: openapi.N(maxNonce)}},
		"RegisterRequest.public_key": {Schema: schema{Pattern: base64Of32}},

		"Registered":                    says("What an agent needs to live, in the words of both kinds of agents."),
		"Registered.signing_public_key": {Schema: schema{Pattern: base64Of32}},
		"Registered.nsk":                {Schema: schema{Pattern: base64Of32}},
		"Registered.node_secret_key":    {Schema: schema{Pattern: "^nsk_plexd_[A-Za-z0-9_-]{64}$"}},

		"Heartbeat":         open("What a node's agent says of itself. Members that are not here are not read."),
		"HeartbeatAccepted": says("What the agent is to do."),

		"Accepted":      says("The plane took it."),
		"StateReported": says("The plane took it."),
		"StateReport":   open("One value that a node reports."),
		"Drift":         open("What a node found other than it should be, and put right."),
		"Correction":    open("One thing that a node put right."),
	}
}
