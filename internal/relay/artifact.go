package relay

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// artifactRoom is more than a token of a notice has beside the document.
const artifactRoom = 1 << 10

// artifactUpdated is what a node that has an artifact, or has it no more, is
// told. A document that cannot be read has version 0: the node judges it.
func artifactUpdated(node policy.NodeID, item *projector.Item, gone bool) wire.ArtifactUpdated {
	p := wire.ArtifactUpdated{NodeID: node, Kind: item.Kind, Name: item.Name, Document: new(string)}
	if !gone {
		e, _ := artifact.Parse(item.Payload)
		p.Version, p.Fingerprint, *p.Document = e.Version, item.Fingerprint.String(), string(item.Payload)
	}
	return p
}

func appendArtifact(b []byte, p wire.ArtifactUpdated) []byte {
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
