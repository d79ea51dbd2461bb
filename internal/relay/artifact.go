package relay

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// artifactOverhead is more than a notice has in one JSON token beside the document.
const artifactOverhead = 1 << 10

// artifactUpdated is the payload about an artifact that a node has, or no longer
// has. A document that cannot be read gets version 0; the node verifies it anyway.
func artifactUpdated(node policy.NodeID, item *projector.Item, gone bool) wire.ArtifactUpdated {
	p := wire.ArtifactUpdated{NodeID: node, Kind: item.Kind, Document: new(string)}
	p.Name, p.Rete = projector.CutRete(item.Name)
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
	if p.Rete != "" {
		quote(`,"rete"`, p.Rete)
	}
	b = strconv.AppendUint(append(b, `,"version":`...), p.Version, 10)
	quote(`,"fingerprint"`, p.Fingerprint)
	if p.Document != nil {
		quote(`,"document"`, *p.Document)
	}
	return append(b, '}')
}
