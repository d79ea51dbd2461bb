package relay

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/compiler"
	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/projector"
	"github.com/edictdev/edict/streams"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// artifactPrefix is what the names of artifacts begin with on a node's
// subjects: edict.node.<node>.artifact.<kind>.<name>.
const artifactPrefix = "artifact."

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

// artifactKey is the place of an artifact's announcement in the order.
func artifactKey(seq uint64, name string, node policy.NodeID) Key {
	return Key{seq, artifactPrefix + name, node}
}

// artifactLine makes the payload of an artifact's announcement. A document that
// no message has room for is left out: the node pulls it.
func (s *sealer) artifactLine(a announcement, source Outbox) (line, error) {
	kind, name, _ := strings.Cut(a.artifact, ".")
	p := ArtifactUpdated{NodeID: a.key.Node, Kind: kind, Name: name, Document: new(string)}
	if !a.gone {
		doc, err := source.Payload(a.fingerprint)
		if err == nil {
			var e artifact.Envelope
			e, err = artifact.Parse(doc)
			p.Version = e.Version
		}
		if err != nil {
			return line{}, fmt.Errorf("artifact %s of node %s at %d: %w", a.artifact, a.key.Node, a.key.Seq, err)
		}
		p.Fingerprint, *p.Document = a.fingerprint.String(), string(doc)
	}
	l := line{announcement: a, payload: p.append(nil)}
	if l.room() > s.most {
		p.Document = nil
		l.payload = p.append(nil)
	}
	return l, nil
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

// sealArtifact signs the announcement of an artifact: the plane's word around
// the document, which its own signer vouches for.
func (s *sealer) sealArtifact(l *line) (streams.Outgoing, error) {
	kind, name, _ := strings.Cut(l.artifact, ".")
	body, err := s.keys.Current().Seal(artifact.Envelope{
		Plane: artifact.PlanePolicy, Kind: kind, Name: name, Version: l.key.Seq,
		Node: string(l.key.Node), GeneratedAt: l.time, Payload: l.payload,
	})
	if err != nil {
		return streams.Outgoing{}, fmt.Errorf("artifact %s of node %s at %d: %w", l.artifact, l.key.Node, l.key.Seq, err)
	}
	return s.outgoing(l, body, strconv.FormatUint(l.key.Seq, 10)), nil
}

// artifactIn reads what a stored announcement says of an artifact: the
// fingerprint of its document, or the empty one where it was withdrawn. Not
// known means: announce again.
func artifactIn(body []byte) (fp compiler.Fingerprint, gone, known bool) {
	e, err := artifact.Parse(body)
	if err != nil {
		return fp, false, false
	}
	var p ArtifactUpdated
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return fp, false, false
	}
	switch {
	case p.Document == nil:
		err := fp.UnmarshalText([]byte(p.Fingerprint))
		return fp, false, err == nil
	case p.Fingerprint == "" && *p.Document == "":
		return fp, true, true
	}
	fp = sha256.Sum256([]byte(*p.Document))
	return fp, false, fp.String() == p.Fingerprint
}

// toldArtifact is told for an artifact: as long as a data: line has room for
// it.
func toldArtifact(e stored) (told, error) {
	var p struct {
		Document *string `json:"document"`
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return told{}, err
	}
	payload, err := artifact.NoticePayload(e.Payload)
	if p.Document == nil || len(payload) > dataRoom-artifactRoom {
		return told{pull: true, cause: e.GeneratedAt}, err
	}
	return told{payload: payload, kind: eventArtifactUpdated, cause: e.GeneratedAt}, err
}

// artifactRoom is more than a token of a notice has beside the document.
const artifactRoom = 1 << 10

// toldOf takes the last message of an artifact's subject.
func (d *difference) toldOf(node policy.NodeID, name string, body []byte) {
	says, gone, known := artifactIn(body)
	known = known && signedBy(body) == d.keyID
	if i, ok := d.node(node); ok {
		for _, a := range d.rows.Nodes[i].Artifacts {
			if a.Name != name {
				continue
			}
			if known && !gone && says == a.Fingerprint {
				d.saidOf[artifactOf{node, name}] = true
			}
			return
		}
	}
	if !known || !gone {
		d.add(node, announcement{key: artifactKey(d.rows.Seq, name, node), artifact: name, time: d.rows.Time, gone: true})
	}
}

// artifactOf names an artifact of a node.
type artifactOf struct {
	node policy.NodeID
	name string
}

// untoldOf adds the artifacts of a node that the stream does not tell.
func (d *difference) untoldOf(node projector.SyncNode) {
	for _, a := range node.Artifacts {
		if !d.saidOf[artifactOf{node.ID, a.Name}] {
			d.add(node.ID, announcement{key: artifactKey(d.rows.Seq, a.Name, node.ID), artifact: a.Name, fingerprint: a.Fingerprint, time: d.rows.Time})
		}
	}
}
