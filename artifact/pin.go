package artifact

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	strict "github.com/go-json-experiment/json"
)

// Pin is the first trust of a node: the signers of plane "mgmt" that it accepts
// before it holds any artifact. It comes with the enrollment bundle and from
// nowhere else (reference 5).
type Pin struct {
	Rete    string      `json:"rete"`
	Node    string      `json:"node"`
	Signers []PinSigner `json:"authorized_mgmt_signers"` // at least one
}

// PinSigner is one trusted signer.
type PinSigner struct {
	SPIFFE string `json:"spiffe_id"` // the key id of its signatures
	Key    []byte `json:"pubkey"`    // raw, 32 bytes; base64 std in JSON
}

// JSON is the pin as a file.
func (p Pin) JSON() ([]byte, error) {
	b, err := json.MarshalIndent(p, "", "  ")
	return append(b, '\n'), err
}

// fingerprint tells one pin from another.
func (p Pin) fingerprint() string {
	text, _ := p.JSON() // strings and bytes always marshal
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// ParsePin reads what JSON wrote, strictly.
func ParsePin(doc []byte) (Pin, error) {
	var p Pin
	if err := strict.Unmarshal(doc, &p, strict.RejectUnknownMembers(true)); err != nil {
		return Pin{}, fmt.Errorf("%w trust pin: %w", ErrMalformed, err)
	}
	if len(p.Signers) == 0 {
		return Pin{}, fmt.Errorf("%w trust pin: it names no signer", ErrMalformed)
	}
	for _, s := range p.Signers {
		if len(s.Key) != ed25519.PublicKeySize || s.SPIFFE == "" {
			return Pin{}, fmt.Errorf("%w trust pin: signer %.80q has no ed25519 key or no id", ErrMalformed, s.SPIFFE)
		}
	}
	return p, nil
}

// Trust is the set that trusts the pinned signers, for plane "mgmt" alone.
func (p Pin) Trust() (*TrustSet, error) {
	t := NewTrustSet()
	var all error
	for _, s := range p.Signers {
		all = errors.Join(all, t.Add(PlaneMgmt, s.SPIFFE, s.Key, time.Time{}))
	}
	return t, all
}
