package compiler

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
)

// Fingerprint is the SHA-256 of a rule payload, verbatim. Its text form is
// base64 (standard, padded): 44 characters.
type Fingerprint [sha256.Size]byte

// FingerprintOf hashes a payload, or the concatenation of several.
func FingerprintOf(payloads ...[]byte) (f Fingerprint) {
	if len(payloads) == 1 {
		return sha256.Sum256(payloads[0])
	}
	h := sha256.New()
	for _, p := range payloads {
		h.Write(p)
	}
	h.Sum(f[:0])
	return f
}

// String is the text form.
func (f Fingerprint) String() string { return base64.StdEncoding.EncodeToString(f[:]) }

// AppendText appends the text form to b.
func (f Fingerprint) AppendText(b []byte) ([]byte, error) {
	return base64.StdEncoding.AppendEncode(b, f[:]), nil
}

// MarshalText is the text form.
func (f Fingerprint) MarshalText() ([]byte, error) { return f.AppendText(nil) }

// UnmarshalText reads the text form and nothing else.
func (f *Fingerprint) UnmarshalText(b []byte) error {
	var read [base64Space]byte
	n, err := base64.StdEncoding.Strict().Decode(read[:], b[:min(len(b), base64Len)])
	if err != nil || n != len(f) || len(b) != base64Len {
		return fmt.Errorf("%.64q is not a fingerprint: want the base64 of 32 bytes, 44 characters", b)
	}
	copy(f[:], read[:n])
	return nil
}

const (
	base64Len   = 44 // characters of the text form
	base64Space = 33 // bytes a decoder may touch for them
)
