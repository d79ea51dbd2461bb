package artifact

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// SchemaVersion is the version of the envelope this package writes and reads.
const SchemaVersion = "1.0"

// Planes: who signs what a node trusts. A verifier keeps the keys of each apart.
const (
	PlanePolicy = "policy" // signed by the plane's own key
	PlaneMgmt   = "mgmt"   // signed offline
)

// Envelope is everything a node stores and trusts (docs/design.md#artifacts).
type Envelope struct {
	SchemaVersion string          `json:"schema_version"` // empty when sealed: SchemaVersion
	Plane         string          `json:"plane"`
	Kind          string          `json:"kind"`
	Version       uint64          `json:"version"` // a log sequence; at most MaxInteger
	Node          string          `json:"node"`
	Name          string          `json:"name"`
	GeneratedAt   time.Time       `json:"generated_at"`
	Payload       json.RawMessage `json:"payload"`
	Signature     Signature       `json:"signature"`
}

// SigningBytes are the RFC 8785 form of the envelope without signature: what is
// signed, and what two envelopes of one version must have in common.
func (e Envelope) SigningBytes() ([]byte, error) {
	payload, err := Canonical(e.Payload)
	if err != nil {
		return nil, fmt.Errorf("payload: %w", err)
	}
	return e.write(payload, nil)
}

// Seal signs e and returns its wire JSON: names in the order of RFC 8785, but
// the payload as it is given, byte for byte. Any signature e has is replaced.
func (s *Signer) Seal(e Envelope) ([]byte, error) {
	payload, err := Canonical(e.Payload)
	if err != nil {
		return nil, fmt.Errorf("seal: payload: %w", err)
	}
	return s.SealCanonical(e, payload)
}

// SealCanonical is Seal for a caller that has the RFC 8785 form of e.Payload
// already; nothing is parsed. Giving another document as the canonical form
// makes an envelope nobody can open.
func (s *Signer) SealCanonical(e Envelope, canonicalPayload []byte) ([]byte, error) {
	signed, err := e.write(canonicalPayload, nil)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	e.Signature = Signature{Alg: AlgEd25519, KeyID: s.keyID, Value: base64.StdEncoding.EncodeToString(s.Sign(signed))}
	return e.write(e.Payload, &e.Signature)
}

// datable refuses a generated_at that RFC 3339 has no form for.
func datable(at time.Time) error {
	const last = 9999
	if year := at.UTC().Year(); year < 0 || year > last {
		return fmt.Errorf("generated_at is in the year %d; RFC 3339 has years from 0 to %d", year, last)
	}
	return nil
}

// write prints the envelope with names in the order of RFC 8785, and the given
// payload and signature.
func (e Envelope) write(payload []byte, sig *Signature) ([]byte, error) {
	if e.Version > MaxInteger {
		return nil, fmt.Errorf("version %d is above %d", e.Version, uint64(MaxInteger))
	}
	if err := datable(e.GeneratedAt); err != nil {
		return nil, err
	}
	if len(payload) == 0 {
		return nil, errors.New("the payload is empty")
	}
	if e.SchemaVersion == "" {
		e.SchemaVersion = SchemaVersion
	}
	w := writer{b: make([]byte, 0, len(payload)+512)}
	w.b = e.GeneratedAt.UTC().AppendFormat(append(w.b, `{"generated_at":"`...), time.RFC3339Nano)
	w.text(`","kind":`, e.Kind)
	w.text(`,"name":`, e.Name)
	w.text(`,"node":`, e.Node)
	w.b = append(append(w.b, `,"payload":`...), payload...)
	w.text(`,"plane":`, e.Plane)
	w.text(`,"schema_version":`, e.SchemaVersion)
	if sig != nil {
		w.b = append(w.b, `,"signature":`...)
		w.signature(*sig)
	}
	w.b = strconv.AppendUint(append(w.b, `,"version":`...), e.Version, 10)
	return append(w.b, '}'), w.err
}

// writer appends JSON and keeps the first error.
type writer struct {
	b   []byte
	err error
}

func (w *writer) text(before, s string) {
	b, err := jsontext.AppendQuote(append(w.b, before...), s)
	if w.b = b; err != nil && w.err == nil {
		w.err = fmt.Errorf("%q is not UTF-8: %w", s, err)
	}
}
