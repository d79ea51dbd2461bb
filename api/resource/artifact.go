package resource

import (
	"time"

	"github.com/edictdev/edict/internal/wire"
)

// Artifact is one signed artifact that a node holds.
type Artifact struct {
	Kind        string `json:"kind"`
	Name        string `json:"name"`
	Version     uint64 `json:"version"`
	Fingerprint string `json:"fingerprint"`
	Document    string `json:"document"` // the file, byte for byte
}

// ArtifactUpdated is the payload of an artifact_updated.
type ArtifactUpdated = wire.ArtifactUpdated

// Signer is a signer of plane "mgmt".
type Signer struct {
	SPIFFE string `json:"spiffe_id"`
	Key    string `json:"pubkey"` // base64 of the raw ed25519 key
}

// ReleaseLine is one line of a release: a node's whole set of artifacts.
type ReleaseLine struct {
	NodeID    string   `json:"node_id"`
	Artifacts []string `json:"artifacts"` // files, byte for byte
	Trust     []Signer `json:"trust,omitempty"`
}

// Release is what a project released for a node, without the documents.
type Release struct {
	NodeID     string            `json:"node_id"`
	Rete       string            `json:"rete"`
	Version    uint64            `json:"version"`
	Seq        uint64            `json:"seq"`
	ReleasedAt time.Time         `json:"released_at"`
	Registered bool              `json:"registered"`
	Artifacts  []ReleaseArtifact `json:"artifacts"`
}

// ReleaseArtifact is an artifact without its document.
type ReleaseArtifact struct {
	Kind        string `json:"kind"`
	Name        string `json:"name"`
	Fingerprint string `json:"fingerprint"`
}

// Rete is a rete of a project and whose signatures count for it.
type Rete struct {
	Name    string   `json:"name"`
	Version uint64   `json:"version"` // of the set that gave the signers
	Nodes   int      `json:"nodes"`   // that hold artifacts of it
	Signers []Signer `json:"signers"`
}
