package watch

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// proof is the signature of a native message: its own, or that of a run with
// the way from its leaf to the root (RFC 9162, section 2.1.3).
type proof struct {
	Alg   string `json:"alg"`
	KeyID string `json:"key_id"`
	Value []byte `json:"value"`
	Leaf  int    `json:"leaf"`
	Size  int    `json:"size"`
	Path  []byte `json:"path"`
}

func (p proof) holds(signed []byte, keys Keys) bool {
	if p.Alg == "ed25519" {
		return keys.verifies(p.KeyID, signed, p.Value)
	}
	root, rest, ok := rootOver(sha256.Sum256(append([]byte{0}, signed...)), p.Leaf, p.Size, p.Path)
	text := append(binary.BigEndian.AppendUint64([]byte("edict/batch/v1\n"), uint64(p.Size)), root[:]...)
	return ok && len(rest) == 0 && p.Alg == "ed25519-merkle" && p.Size > 1 && p.Size <= 64 && keys.verifies(p.KeyID, text, p.Value)
}

// rootOver hashes a leaf up to the root of a tree of size leaves. The left half
// of a tree holds the largest power of two below its size; the sibling of the
// upper half stands last in the path.
func rootOver(at [32]byte, leaf, size int, path []byte) (root [32]byte, rest []byte, ok bool) {
	if size == 1 {
		return at, path, leaf == 0
	}
	half := 1
	for half*2 < size {
		half *= 2
	}
	if len(path) < 32 || leaf < 0 || leaf >= size {
		return at, path, false
	}
	path, sibling := path[:len(path)-32], path[len(path)-32:]
	if leaf < half {
		at, rest, ok = rootOver(at, leaf, half, path)
		return sha256.Sum256(slices.Concat([]byte{1}, at[:], sibling)), rest, ok
	}
	at, rest, ok = rootOver(at, leaf-half, size-half, path)
	return sha256.Sum256(slices.Concat([]byte{1}, sibling, at[:])), rest, ok
}
