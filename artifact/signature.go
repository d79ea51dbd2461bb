package artifact

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
)

// Algorithms of signatures.
const (
	// AlgEd25519 signs one envelope.
	AlgEd25519 = "ed25519"
	// AlgEd25519Merkle signs the Merkle root of a run of envelopes; each has its
	// own proof and verifies alone. Only PlanePolicy takes it (docs/design.md#delivery).
	AlgEd25519Merkle = "ed25519-merkle"
)

// Signature of an envelope. Leaf, Size and Path are the proof that the envelope
// is in the signed run; they are on the wire only when Alg is AlgEd25519Merkle.
type Signature struct {
	Alg   string `json:"alg"`
	KeyID string `json:"key_id"`
	Value string `json:"value"` // base64 std of the raw signature
	Leaf  int    `json:"leaf"`  // place in the run, from 0
	Size  int    `json:"size"`  // envelopes in the run, 2 to MaxRun
	Path  string `json:"path"`  // base64 std of the 32 byte hashes from the leaf up, concatenated
}

// MarshalJSON prints the signature as it travels.
func (s Signature) MarshalJSON() ([]byte, error) {
	var w writer
	w.signature(s)
	return w.b, w.err
}

// signature appends s with names in the order of RFC 8785.
func (w *writer) signature(s Signature) {
	w.text(`{"alg":`, s.Alg)
	w.text(`,"key_id":`, s.KeyID)
	if s.Alg == AlgEd25519Merkle {
		w.b = strconv.AppendInt(append(w.b, `,"leaf":`...), int64(s.Leaf), 10)
		w.text(`,"path":`, s.Path)
		w.b = strconv.AppendInt(append(w.b, `,"size":`...), int64(s.Size), 10)
	}
	w.text(`,"value":`, s.Value)
	w.b = append(w.b, '}')
}

// wireSignature tells an absent proof from one of zeros.
type wireSignature struct {
	Alg   string  `json:"alg"`
	KeyID string  `json:"key_id"`
	Value string  `json:"value"`
	Leaf  *int    `json:"leaf"`
	Size  *int    `json:"size"`
	Path  *string `json:"path"`
}

func (w wireSignature) signature() (Signature, error) {
	s := Signature{Alg: w.Alg, KeyID: w.KeyID, Value: w.Value}
	if w.Alg != AlgEd25519Merkle {
		if w.Leaf != nil || w.Size != nil || w.Path != nil {
			return s, fmt.Errorf("leaf, size and path belong to algorithm %s, not to %.40q", AlgEd25519Merkle, w.Alg)
		}
		return s, nil
	}
	if w.Leaf == nil || w.Size == nil || w.Path == nil {
		return s, fmt.Errorf("algorithm %s needs leaf, size and path", AlgEd25519Merkle)
	}
	s.Leaf, s.Size, s.Path = *w.Leaf, *w.Size, *w.Path
	return s, nil
}

// root is the root of the run that the proof puts the leaf in. Whether anybody
// signed that root is another question. A run of one is never signed this way,
// so that it has one form only.
func (s Signature) root(leaf digest) (digest, error) {
	if s.Size < 2 || s.Size > MaxRun || s.Leaf < 0 || s.Leaf >= s.Size {
		return digest{}, fmt.Errorf("leaf %d of %d; a run has 2 to %d", s.Leaf, s.Size, MaxRun)
	}
	if len(s.Path) > base64.StdEncoding.EncodedLen(maxPath) {
		return digest{}, errors.New("the path is too long")
	}
	path, err := decode64(s.Path)
	if err != nil {
		return digest{}, fmt.Errorf("path: %w", err)
	}
	root, ok := climb(leaf, s.Leaf, s.Size, path)
	if !ok {
		return digest{}, fmt.Errorf("a path of %d bytes does not lead from leaf %d of %d to a root", len(path), s.Leaf, s.Size)
	}
	return root, nil
}

// decode64 reads the one form that bytes have in base64 std. The library's
// strict reader still skips line breaks.
func decode64(text string) ([]byte, error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err == nil && base64.StdEncoding.EncodedLen(len(raw)) != len(text) {
		err = errors.New("base64 with line breaks")
	}
	return raw, err
}
