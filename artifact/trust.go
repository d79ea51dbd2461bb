package artifact

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/edictdev/edict/internal/fault"
)

// Reasons to refuse a document; errors.Is finds them.
var (
	// ErrMalformed: not an envelope or notice at all.
	ErrMalformed = errors.New("malformed")
	// ErrSchemaVersion: the envelope is of a version this binary cannot judge.
	ErrSchemaVersion = errors.New("unknown schema version")
	// ErrUnknownKey: no such key is trusted for that plane.
	ErrUnknownKey = errors.New("unknown key")
	// ErrExpiredKey: the key is a previous one whose transition has ended.
	ErrExpiredKey = errors.New("expired key")
	// ErrBadSignature: the key did not sign these bytes.
	ErrBadSignature = errors.New("bad signature")
)

// TrustSet holds the public keys a verifier trusts, plane by plane. The zero
// value trusts nobody. It is safe for concurrent use.
//
// It remembers the last runs whose signature it found good, so that a further
// message of such a run costs hashes only. The memory is bounded, per key, and
// gone when the key is replaced, removed or found expired.
type TrustSet struct {
	// Now tells the time against which previous keys expire; nil: time.Now. Set
	// it before use.
	Now func() time.Time

	mu   sync.RWMutex
	keys map[trustKey]trusted
}

type trustKey struct{ plane, id string }

type trusted struct {
	public   ed25519.PublicKey
	notAfter time.Time
	roots    *roots  // of runs it signed; they go when the key goes
	held     *Signer // its private half, if this process has it
}

// NewTrustSet makes an empty set.
func NewTrustSet() *TrustSet { return new(TrustSet) }

// Add trusts a raw 32 byte public key for one plane, replacing the key of that
// id. notAfter is the end of a previous key's transition; the zero time marks a
// current key.
func (t *TrustSet) Add(plane, keyID string, publicKey []byte, notAfter time.Time) error {
	if len(publicKey) != ed25519.PublicKeySize {
		return fmt.Errorf("key %s of plane %s has %d bytes; an ed25519 public key has %d",
			keyID, plane, len(publicKey), ed25519.PublicKeySize)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.keys == nil {
		t.keys = map[trustKey]trusted{}
	}
	t.keys[trustKey{plane, keyID}] = trusted{public: bytes.Clone(publicKey), notAfter: notAfter, roots: new(roots)}
	return nil
}

// Hold says that this process has the private half of a key of the plane. What
// that key signed is then recognised by signing it again, which costs half of a
// verification: ed25519 gives equal bytes one signature. A signature that differs
// is verified, so Hold changes no answer. A signer who is not trusted is not held.
func (t *TrustSet) Hold(plane string, s *Signer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := trustKey{plane, s.KeyID()}
	if key, ok := t.keys[at]; ok && bytes.Equal(key.public, s.PublicKey()) {
		key.held = s
		t.keys[at] = key
	}
}

// key finds a key of a plane that is good at the given time.
func (t *TrustSet) key(plane, keyID string, now time.Time) (trusted, error) {
	t.mu.RLock()
	key, ok := t.keys[trustKey{plane, keyID}]
	t.mu.RUnlock()
	if !ok {
		return trusted{}, fmt.Errorf("%w: %.80q is not trusted for plane %.80q", ErrUnknownKey, keyID, plane)
	}
	if !key.notAfter.IsZero() && now.After(key.notAfter) {
		key.roots.forget()
		return trusted{}, fmt.Errorf("%w: %s of plane %s ended at %s", ErrExpiredKey, keyID, plane, key.notAfter.UTC().Format(time.RFC3339))
	}
	return key, nil
}

// verify checks a signature (base64 std) against one key of a plane.
func (t *TrustSet) verify(plane, keyID string, now time.Time, message []byte, signature string) error {
	key, err := t.key(plane, keyID, now)
	if err != nil {
		return err
	}
	if key.held != nil && signature == base64.StdEncoding.EncodeToString(key.held.Sign(message)) {
		return nil
	}
	raw, err := decode64(signature)
	if (err != nil || !ed25519.Verify(key.public, message, raw)) && !fault.Always(fault.Unverified) {
		return fmt.Errorf("%w: not made by %s", ErrBadSignature, keyID)
	}
	return nil
}

// verifyRun checks the signature of a run, and the proof that the envelope with
// these signed bytes is in it (docs/design.md#delivery).
func (t *TrustSet) verifyRun(plane string, now time.Time, signed []byte, s Signature) error {
	if plane != PlanePolicy {
		return fmt.Errorf("%w: algorithm %s is for plane %s, not for %.80q", ErrBadSignature, s.Alg, PlanePolicy, plane)
	}
	key, err := t.key(plane, s.KeyID, now)
	if err != nil {
		return err
	}
	root, err := s.root(hashLeaf(signed))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBadSignature, err)
	}
	raw, err := decode64(s.Value)
	if err != nil || len(raw) != ed25519.SignatureSize {
		return fmt.Errorf("%w: the value is not the base64 of %d bytes", ErrBadSignature, ed25519.SignatureSize)
	}
	run := verifiedRoot{root, s.Size, [ed25519.SignatureSize]byte(raw)}
	if key.roots.knows(run) {
		return nil
	}
	if !ed25519.Verify(key.public, batchText(s.Size, root), raw) {
		return fmt.Errorf("%w: the envelope is in no run of %d that %s signed", ErrBadSignature, s.Size, s.KeyID)
	}
	key.roots.add(run)
	return nil
}

func (t *TrustSet) now() time.Time {
	if t.Now != nil {
		return t.Now()
	}
	return time.Now()
}

// Open parses an envelope strictly and verifies it against the trust set of its
// plane. Whether the envelope is meant for this node and not older than what it
// holds is for the caller to check (Envelope.Expect, HighWater). The payload is
// as it stood in doc, and a copy.
func (t *TrustSet) Open(doc []byte) (Envelope, error) {
	e, err := Parse(doc)
	if err != nil {
		return Envelope{}, err
	}
	if _, err := t.Verify(e); err != nil {
		return Envelope{}, err
	}
	e.Payload = bytes.Clone(e.Payload)
	return e, nil
}

// Verify is Open for an envelope that was parsed already. It returns the bytes
// that were signed.
func (t *TrustSet) Verify(e Envelope) (signed []byte, err error) {
	signed, err = e.SigningBytes()
	if err != nil {
		return nil, fmt.Errorf("%w envelope: %w", ErrMalformed, err)
	}
	switch e.Signature.Alg {
	case AlgEd25519:
		err = t.verify(e.Plane, e.Signature.KeyID, t.now(), signed, e.Signature.Value)
	case AlgEd25519Merkle:
		err = t.verifyRun(e.Plane, t.now(), signed, e.Signature)
	default:
		err = fmt.Errorf("%w: algorithm %.40q; want %s or %s", ErrBadSignature, e.Signature.Alg, AlgEd25519, AlgEd25519Merkle)
	}
	return signed, err
}

// wire tells an absent field from an empty one, and keeps the time's text.
type wire struct {
	SchemaVersion *string        `json:"schema_version"`
	Plane         *string        `json:"plane"`
	Kind          *string        `json:"kind"`
	Version       *uint64        `json:"version"`
	Node          *string        `json:"node"`
	Name          *string        `json:"name"`
	GeneratedAt   *string        `json:"generated_at"`
	Payload       span           `json:"payload"`
	Signature     *wireSignature `json:"signature"`
}

// span is where a value stands in the document that is read.
type span struct{ from, to int64 }

// UnmarshalJSONFrom copies nothing.
func (s *span) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	v, err := d.ReadValue()
	s.to = d.InputOffset()
	s.from = s.to - int64(len(v))
	return err
}

// Parse reads an envelope as strictly as TrustSet.Open, but verifies nothing:
// what it says is what somebody wrote. The payload is that part of doc, no copy.
func Parse(doc []byte) (Envelope, error) {
	var w wire
	// The strict reader refuses names said twice, unknown names and bad UTF-8.
	if err := json.Unmarshal(doc, &w, json.RejectUnknownMembers(true)); err != nil {
		return Envelope{}, fmt.Errorf("%w envelope: %w", ErrMalformed, err)
	}
	if w.SchemaVersion == nil || w.Plane == nil || w.Kind == nil || w.Version == nil || w.Node == nil ||
		w.Name == nil || w.GeneratedAt == nil || w.Payload.to == 0 || w.Signature == nil {
		return Envelope{}, fmt.Errorf("%w envelope: every field is required", ErrMalformed)
	}
	if *w.SchemaVersion != SchemaVersion {
		return Envelope{}, fmt.Errorf("%w %.20q: this binary reads %s", ErrSchemaVersion, *w.SchemaVersion, SchemaVersion)
	}
	at, err := time.Parse(time.RFC3339Nano, *w.GeneratedAt)
	// One text per time, so that the parsed envelope prints the signed bytes.
	if err != nil || at.UTC().Format(time.RFC3339Nano) != *w.GeneratedAt {
		return Envelope{}, fmt.Errorf("%w envelope: generated_at %.40q is not the shortest RFC 3339 form in UTC", ErrMalformed, *w.GeneratedAt)
	}
	sig, err := w.Signature.signature()
	if err != nil {
		return Envelope{}, fmt.Errorf("%w envelope: signature: %w", ErrMalformed, err)
	}
	return Envelope{
		SchemaVersion: *w.SchemaVersion, Plane: *w.Plane, Kind: *w.Kind, Version: *w.Version,
		Node: *w.Node, Name: *w.Name, GeneratedAt: at.UTC(), Payload: doc[w.Payload.from:w.Payload.to:w.Payload.to], Signature: sig,
	}, nil
}
