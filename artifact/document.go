package artifact

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// As is the same key under another id, such as the SPIFFE ID that names a
// signer of plane "mgmt".
func (s *Signer) As(keyID string) *Signer { return &Signer{s.private, keyID} }

// SealDocument signs e and returns it as a file that people read and compare:
// members in the order of the specification, indented by two spaces, the
// payload's in the order they are given. White space is not signed.
func (s *Signer) SealDocument(e Envelope) ([]byte, error) {
	signed, err := e.SigningBytes()
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	if e.SchemaVersion == "" {
		e.SchemaVersion = SchemaVersion
	}
	w := writer{b: make([]byte, 0, 2*len(signed)+512)}
	w.text(`{"schema_version":`, e.SchemaVersion)
	w.text(`,"plane":`, e.Plane)
	w.text(`,"kind":`, e.Kind)
	w.b = strconv.AppendUint(append(w.b, `,"version":`...), e.Version, 10)
	w.text(`,"node":`, e.Node)
	w.text(`,"name":`, e.Name)
	w.b = e.GeneratedAt.UTC().AppendFormat(append(w.b, `,"generated_at":"`...), time.RFC3339Nano)
	w.b = append(append(w.b, `","payload":`...), e.Payload...)
	w.b = append(w.b, `,"signature":`...)
	w.signature(Signature{Alg: AlgEd25519, KeyID: s.keyID, Value: base64.StdEncoding.EncodeToString(s.Sign(signed))})
	w.b = append(w.b, '}')
	if w.err != nil {
		return nil, fmt.Errorf("seal: %w", w.err)
	}
	doc, err := jsontext.AppendFormat(nil, w.b, jsontext.WithIndent("  "), jsontext.SpaceAfterColon(true), jsontext.Multiline(true))
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return append(doc, '\n'), nil
}
