package api

import "github.com/edictdev/edict/internal/api/openapi"

var artifactKind = hint{Schema: schema{Description: "Its kind.", Enum: []any{"agent", "vertex"}}}

// artifactPart is the name of an artifact, or another DNS label of one.
func artifactPart(what string) hint {
	return hint{Schema: schema{Description: what, Pattern: nodeID.Pattern, MaxLength: nodeID.MaxLength}}
}

func artifactHints() map[string]hint {
	return map[string]hint{
		"ArtifactItems":       says("Artifacts of a node."),
		"ArtifactItems.items": says("Artifacts by kind and name."),
		"Artifact":            says("A signed artifact that a node must hold."),
		"Artifact.kind":       artifactKind,
		"Artifact.name":       artifactPart("Its name."),

		"ArtifactUpdated":         says("An artifact of a node as it is from now on."),
		"ArtifactUpdated.node_id": {Schema: nodeID},
		"ArtifactUpdated.kind":    artifactKind,
		"ArtifactUpdated.name":    artifactPart("Its name."),

		"Signer":           says("A signer of a rete."),
		"Signer.spiffe_id": {Schema: schema{Pattern: "^spiffe://", Examples: []any{"spiffe://demo-rete/management-plane/primary"}}},
		"Signer.pubkey":    {Schema: schema{MinLength: openapi.N(44), MaxLength: openapi.N(44), Examples: []any{"11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="}}},
	}
}

func releaseHints() map[string]hint {
	return map[string]hint{
		"ReleaseLine":         says("One line of a release: the whole set of a node."),
		"ReleaseLine.node_id": {Schema: nodeID},

		"ReleasePage":             says("Releases of a project."),
		"ReleasePage.items":       says("Releases by node id."),
		"ReleasePage.next_cursor": nextCursor,
		"Release":                 says("What a project released for a node."),
		"Release.node_id":         {Schema: nodeID},

		"ReleaseArtifact":      says("An artifact without its document."),
		"ReleaseArtifact.kind": artifactKind,
		"ReleaseArtifact.name": artifactPart("Its name."),

		"ReteItems":       says("The retes of a project."),
		"ReteItems.items": says("Retes by name."),
		"Rete":            says("A rete that nodes hold artifacts of."),
		"Rete.nodes":      {Schema: schema{Minimum: openapi.N(1)}},
	}
}
