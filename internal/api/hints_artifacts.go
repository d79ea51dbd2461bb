package api

import "github.com/edictdev/edict/internal/api/openapi"

func artifactHints() map[string]hint {
	part := func(what string) hint {
		return hint{Schema: schema{Description: what, Pattern: nodeID.Pattern, MaxLength: nodeID.MaxLength}}
	}
	kind := hint{Schema: schema{Description: "Its kind.", Enum: []any{"agent", "vertex"}}}
	print := says("SHA-256 of the document, in base64.")
	all := map[string]hint{
		"ArtifactItems":        says("Artifacts of a node."),
		"ArtifactItems.items":  says("Artifacts by kind and name."),
		"Artifact":             says("A signed artifact that a node must hold."),
		"Artifact.kind":        kind,
		"Artifact.name":        part("Its name."),
		"Artifact.version":     says("Its version, which all of the node's artifacts share."),
		"Artifact.fingerprint": print,
		"Artifact.document":    says("The file as it was signed, byte for byte."),

		"ArtifactUpdated":             says("An artifact of a node as it is from now on."),
		"ArtifactUpdated.node_id":     {Schema: nodeID},
		"ArtifactUpdated.kind":        kind,
		"ArtifactUpdated.name":        part("Its name."),
		"ArtifactUpdated.version":     says("Its version; 0 when it was withdrawn."),
		"ArtifactUpdated.fingerprint": says("SHA-256 of the document, in base64; empty when it was withdrawn."),
		"ArtifactUpdated.document":    says("The file as it was signed, byte for byte; empty when it was withdrawn, absent when it is too large for a message: pull the set."),

		"Signer":           says("A signer of a rete."),
		"Signer.spiffe_id": {Schema: schema{Description: "The id under which it signs.", Pattern: "^spiffe://", Examples: []any{"spiffe://demo-rete/management-plane/primary"}}},
		"Signer.pubkey":    {Schema: schema{Description: "Base64 of the raw ed25519 public key.", MinLength: openapi.N(44), MaxLength: openapi.N(44), Examples: []any{"11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="}}},

		"ReleaseLine":           says("One line of a release: the whole set of a node."),
		"ReleaseLine.node_id":   {Schema: nodeID},
		"ReleaseLine.artifacts": says("The files of the node, byte for byte."),
		"ReleaseLine.trust":     says("Pins the first signers of the rete; without effect once it has some."),

		"ReleasePage":             says("Releases of a project."),
		"ReleasePage.items":       says("Releases by node id."),
		"ReleasePage.next_cursor": nextCursor,
		"Release":                 says("What a project released for a node."),
		"Release.node_id":         {Schema: nodeID},
		"Release.rete":            says("The trust domain of its signers."),
		"Release.version":         says("Its version."),
		"Release.seq":             says("The log sequence of the event that gave it."),
		"Release.released_at":     logTime("When that event was stored"),
		"Release.registered":      says("Whether the node exists now, and is told."),
		"Release.artifacts":       says("Artifacts by kind and name."),

		"ReleaseArtifact":             says("An artifact without its document."),
		"ReleaseArtifact.kind":        kind,
		"ReleaseArtifact.name":        part("Its name."),
		"ReleaseArtifact.fingerprint": print,

		"ReteItems":       says("The retes of a project."),
		"ReteItems.items": says("Retes by name."),
		"Rete":            says("A rete that nodes hold artifacts of."),
		"Rete.name":       says("Its trust domain."),
		"Rete.version":    says("The version of the set that gave its signers."),
		"Rete.nodes":      {Schema: schema{Description: "Nodes that hold artifacts of it.", Minimum: openapi.N(1)}},
		"Rete.signers":    says("Whose signatures count, by SPIFFE ID."),
	}
	return all
}
