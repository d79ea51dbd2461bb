package api

import "github.com/edictdev/edict/internal/api/openapi"

func registerHints() map[string]hint {
	const base64Of32 = "^[A-Za-z0-9+/]{43}=$"
	open := func(text string) hint { return hint{Schema: schema{Description: text, AdditionalProperties: true}} }
	at := logTime("When the plane took it")
	at.Description = "When the plane took it, by the clock of the worker that answered."
	return map[string]hint{
		"RegisterRequest":                       open("How an agent asks to be a node. Current agents send bootstrap_token, nonce and project_id, older ones token; members that are not here are not read."),
		"RegisterRequest.project_id":            uuidOf("the node's project"),
		"RegisterRequest.bootstrap_token":       says("The one-time token, of current agents."),
		"RegisterRequest.nonce":                 {Schema: schema{Description: "A text that no other registration has, of current agents.", MaxLength: openapi.N(maxNonce)}},
		"RegisterRequest.resource_handle":       says("What the agent calls itself; it must be what the token is bound to, if it is."),
		"RegisterRequest.resource_id":           says("Another name of resource_handle."),
		"RegisterRequest.requested_resource_id": says("The node's id, if the agent knows it."),
		"RegisterRequest.token":                 says("The one-time token, of older agents."),
		"RegisterRequest.hostname":              says("The machine's name, which is not kept."),
		"RegisterRequest.public_key":            {Schema: schema{Description: "The agent's X25519 public key, base64.", Pattern: base64Of32}},

		"Registered":                    says("What an agent needs to live, in the words of both kinds of agents."),
		"Registered.node_id":            uuidOf("the node"),
		"Registered.mesh_ip":            says("An address that stands for none: there is no mesh."),
		"Registered.signing_public_key": {Schema: schema{Description: "The plane's public key, which signs events: base64 of its 32 bytes.", Pattern: base64Of32}},
		"Registered.signing_key_id":     says("The id of that key."),
		"Registered.nsk":                {Schema: schema{Description: "The node's secret, base64. By itself it proves nothing: the bearer token has the node's id before it.", Pattern: base64Of32}},
		"Registered.peer_snapshot":      says("Empty: there is no mesh."),
		"Registered.domain_mesh_cidr":   says("A prefix of that one address."),
		"Registered.node_secret_key":    {Schema: schema{Description: "The node's bearer token, whole.", Pattern: "^nsk_plexd_[A-Za-z0-9_-]{64}$"}},
		"Registered.peers":              says("Empty: there is no mesh."),

		"Heartbeat":                     open("What a node's agent says of itself. Members that are not here are not read."),
		"Heartbeat.client_now":          says("The agent's clock. It must be within 60 s of the plane's; absent or zero it is not looked at."),
		"Heartbeat.binary_checksum":     says("Of the agent's program, which is not kept."),
		"Heartbeat.binary_version":      says("Of the agent, which is not kept."),
		"HeartbeatAccepted":             says("What the agent is to do."),
		"HeartbeatAccepted.accepted_at": at,
		"HeartbeatAccepted.reconcile":   says("Pull the state now: this worker cannot be relied on to push, or the node pulled another state from it last."),
		"HeartbeatAccepted.rotate_keys": says("Always false: there is no mesh whose keys could be rotated."),

		"Accepted":                  says("The plane took it."),
		"Accepted.accepted_at":      at,
		"StateReported":             says("The plane took it."),
		"StateReported.accepted_at": at,
		"StateReported.key":         says("The key, as the path has it."),
		"StateReport":               open("One value that a node reports."),
		"StateReport.value":         says("The value, which is not kept."),
		"StateReport.workload_tag":  says("Whose value it is, which is not kept."),
		"Drift":                     open("What a node found other than it should be, and put right."),
		"Drift.timestamp":           says("When, by the agent's clock."),
		"Drift.corrections":         says("What it put right."),
		"Correction":                open("One thing that a node put right."),
		"Correction.type":           says("What was done."),
		"Correction.detail":         says("About what."),
	}
}
