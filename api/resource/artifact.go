package resource

import (
	"time"

	"github.com/edictdev/edict/internal/wire"
)

// Artifact is one signed artifact that a node holds.
type Artifact struct {
	Kind        string `json:"kind"`
	Name        string `json:"name"`
	Rete        string `json:"rete,omitempty" doc:"The rete that it is of; absent when it is the node's first, or only one."`
	Version     uint64 `json:"version" doc:"Its version, which all of the node's artifacts of one rete share."`
	Fingerprint string `json:"fingerprint" doc:"SHA-256 of the document, in base64."`
	Document    string `json:"document" doc:"The file as it was signed, byte for byte."` // the file, byte for byte
}

// ArtifactUpdated is the payload of an artifact_updated.
type ArtifactUpdated = wire.ArtifactUpdated

// Signer is a signer of plane "mgmt".
type Signer struct {
	SPIFFE string `json:"spiffe_id" doc:"The id under which it signs."`
	Key    string `json:"pubkey" doc:"Base64 of the raw ed25519 public key."` // base64 of the raw ed25519 key
}

// ReleaseLine is one line of a release: a node's whole set of artifacts of one rete.
type ReleaseLine struct {
	NodeID    string   `json:"node_id"`
	Artifacts []string `json:"artifacts" doc:"The files of the node, byte for byte."` // files, byte for byte
	Trust     []Signer `json:"trust,omitempty" doc:"Pins the first signers of the rete; without effect once it has some."`
}

// Release is what a project released for a node, of one of its retes, without the
// documents.
type Release struct {
	NodeID     string            `json:"node_id"`
	Rete       string            `json:"rete" doc:"The trust domain of its signers."`
	Version    uint64            `json:"version" doc:"Its version."`
	Seq        uint64            `json:"seq" doc:"The log sequence of the event that gave it."`
	ReleasedAt time.Time         `json:"released_at" doc:"When that event was stored, by the log's clock."`
	Registered bool              `json:"registered" doc:"Whether the node exists now, and is sent its artifacts."`
	Artifacts  []ReleaseArtifact `json:"artifacts" doc:"Artifacts by kind and name."`
}

// ReleaseArtifact is an artifact without its document.
type ReleaseArtifact struct {
	Kind        string `json:"kind"`
	Name        string `json:"name"`
	Fingerprint string `json:"fingerprint" doc:"SHA-256 of the document, in base64."`
}

// Rete is a rete of a project and whose signatures count for it.
type Rete struct {
	Name    string   `json:"name" doc:"Its trust domain."`
	Version uint64   `json:"version" doc:"The version of the set that gave its signers."` // of the set that gave the signers
	Nodes   int      `json:"nodes" doc:"Nodes that hold artifacts of it."`                // that hold artifacts of it
	Signers []Signer `json:"signers" doc:"Whose signatures count, by SPIFFE ID."`
}
