package relay

import (
	"strconv"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/projector"
	"github.com/go-json-experiment/json/jsontext"
)

// artifactPrefix is what the names of artifacts begin with on a node's
// subjects: edict.node.<node>.artifact.<kind>.<name>.
const artifactPrefix = "artifact."

// artifactRoom is more than a token of a notice has beside the document.
const artifactRoom = 1 << 10

// ArtifactUpdated is the payload that tells a node of one of its artifacts, on
// either transport. Of one that was withdrawn only node, kind and name are set.
type ArtifactUpdated struct {
	NodeID      policy.NodeID `json:"node_id"`
	Kind        string        `json:"kind"`
	Name        string        `json:"name"`
	Version     uint64        `json:"version"`
	Fingerprint string        `json:"fingerprint"` // SHA-256 of the document, base64 std
	Document    *string       `json:"document"`    // the file, byte for byte; nil: too large to be told, it is to be pulled
}

// artifactUpdated is what a node that has an artifact, or has it no more, is
// told. A document that cannot be read has version 0: the node judges it.
func artifactUpdated(node policy.NodeID, item *projector.Item, gone bool) ArtifactUpdated {
	p := ArtifactUpdated{NodeID: node, Kind: item.Kind, Name: item.Name, Document: new(string)}
	if !gone {
		e, _ := artifact.Parse(item.Payload)
		p.Version, p.Fingerprint, *p.Document = e.Version, item.Fingerprint.String(), string(item.Payload)
	}
	return p
}

func (p ArtifactUpdated) append(b []byte) []byte {
	quote := func(name, value string) {
		b = append(append(b, name...), ':')
		b, _ = jsontext.AppendQuote(b, value) // documents are UTF-8, or were refused
	}
	quote(`{"node_id"`, string(p.NodeID))
	quote(`,"kind"`, p.Kind)
	quote(`,"name"`, p.Name)
	b = strconv.AppendUint(append(b, `,"version":`...), p.Version, 10)
	quote(`,"fingerprint"`, p.Fingerprint)
	if p.Document != nil {
		quote(`,"document"`, *p.Document)
	}
	return append(b, '}')
}
