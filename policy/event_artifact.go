package policy

import (
	"encoding/base64"

	"github.com/google/uuid"
)

// Names of the events about artifacts, on the wire.
const (
	TypeArtifactReleased  = "artifact_released"
	TypeArtifactWithdrawn = "artifact_withdrawn"
)

// ArtifactReleased states a node's artifacts, the whole set: what it had and is
// not in the event is withdrawn (docs/design.md#artifacts).
type ArtifactReleased struct {
	ID      uuid.UUID
	Project uuid.UUID
	Node    NodeID
	// Artifacts are signed envelopes as they were written, without the newline
	// that ends a file. Whether they are sound and who signed them is not judged
	// here.
	Artifacts []string
	// Trust pins the first signers of the artifacts' rete. It means nothing once
	// the rete has signers.
	Trust []TrustedSigner
	// Rete is that of the signers. It is said where the node holds artifacts of
	// another one, too, which stay as they are; empty: the node is of no other.
	Rete string
}

// ArtifactWithdrawn takes one artifact from a node.
type ArtifactWithdrawn struct {
	ID      uuid.UUID
	Project uuid.UUID
	Node    NodeID
	Kind    string
	Name    string
	Rete    string // as in ArtifactReleased
}

type artifactMembers struct {
	artifacts    []string
	trust        []TrustedSigner
	rete         string
	artifactKind string
	artifactName string
}

var artifactReleased = Kind{
	Type: TypeArtifactReleased, Family: ofArtifacts,
	Schema: func(e Event) int { return schemaOfRete(e.(ArtifactReleased).Rete) },
	need:   []string{"node_id", "artifacts"}, may: []string{"trust", "rete"},
	own: []member{
		{"artifacts", func(r *reader, rec *record) { rec.artifacts = readArtifacts(r) }},
		{"trust", func(r *reader, rec *record) { rec.trust = readTrust(r) }},
		{"rete", func(r *reader, rec *record) { rec.rete = readRete(r) }},
	},
	read: func(rec *record) Event {
		return ArtifactReleased{rec.id, rec.project, rec.node, rec.artifacts, rec.trust, rec.rete}
	},
}

var artifactWithdrawn = Kind{
	Type: TypeArtifactWithdrawn, Family: ofArtifacts, Ends: true,
	Schema: func(e Event) int { return schemaOfRete(e.(ArtifactWithdrawn).Rete) },
	need:   []string{"node_id", "kind", "name"}, may: []string{"rete"},
	own: []member{
		{"kind", func(r *reader, rec *record) { rec.artifactKind = readArtifactPart(r) }},
		{"name", func(r *reader, rec *record) { rec.artifactName = readArtifactPart(r) }},
	},
	read: func(rec *record) Event {
		return ArtifactWithdrawn{rec.id, rec.project, rec.node, rec.artifactKind, rec.artifactName, rec.rete}
	},
}

// schemaOfRete is the schema of an event that says of which rete it is, or does not.
func schemaOfRete(rete string) int {
	if rete != "" {
		return schemaRete
	}
	return schemaArtifacts
}

// EventID implements Event.
func (e ArtifactReleased) EventID() uuid.UUID { return e.ID }

// EventID implements Event.
func (e ArtifactWithdrawn) EventID() uuid.UUID { return e.ID }

// EventType implements Event.
func (ArtifactReleased) EventType() string { return TypeArtifactReleased }

// EventType implements Event.
func (ArtifactWithdrawn) EventType() string { return TypeArtifactWithdrawn }

// Scope implements Event.
func (e ArtifactReleased) Scope() uuid.UUID { return e.Project }

// Scope implements Event.
func (e ArtifactWithdrawn) Scope() uuid.UUID { return e.Project }

func (ArtifactReleased) describe() *Kind  { return &artifactReleased }
func (ArtifactWithdrawn) describe() *Kind { return &artifactWithdrawn }

func (e ArtifactReleased) appendKey(b []byte) []byte  { return append(b, e.Node...) }
func (e ArtifactWithdrawn) appendKey(b []byte) []byte { return append(b, e.Node...) }

// appendMembers appends the members of a release, the documents verbatim.
func (e ArtifactReleased) appendMembers(b []byte) []byte {
	b = append(appendNode(b, e.Node), `,"artifacts":[`...)
	for i, doc := range e.Artifacts {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, doc...)
	}
	return appendRete(e.appendTrust(append(b, ']')), e.Rete)
}

func (e ArtifactReleased) appendTrust(b []byte) []byte {
	if len(e.Trust) == 0 {
		return b
	}
	b = append(b, `,"trust":[`...)
	for i, s := range e.Trust {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(append(b, `{"spiffe_id":`...), s.SPIFFE)
		b = base64.StdEncoding.AppendEncode(append(b, `,"pubkey":"`...), s.Key)
		b = append(b, `"}`...)
	}
	return append(b, ']')
}

func (e ArtifactWithdrawn) appendMembers(b []byte) []byte {
	b = appendText(append(appendNode(b, e.Node), `,"kind":`...), e.Kind)
	return appendRete(appendText(append(b, `,"name":`...), e.Name), e.Rete)
}

func appendRete(b []byte, rete string) []byte {
	if rete == "" {
		return b
	}
	return appendText(append(b, `,"rete":`...), rete)
}
