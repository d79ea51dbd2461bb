package artifact

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
)

// MaxRun is the most envelopes one signature may cover (docs/design.md#delivery).
const MaxRun = 64

// maxPath is the longest inclusion path in a tree of MaxRun leaves, in bytes.
const maxPath = 6 * sha256.Size

// Leaves and inner nodes start differently, so that neither passes for the
// other (RFC 9162, section 2.1.1).
const (
	leafPrefix = 0x00
	nodePrefix = 0x01
)

type digest = [sha256.Size]byte

func hashLeaf(signed []byte) digest {
	h := sha256.New()
	h.Write([]byte{leafPrefix})
	h.Write(signed)
	return digest(h.Sum(nil))
}

func hashNode(left, right digest) digest {
	var b [1 + 2*sha256.Size]byte
	b[0] = nodePrefix
	copy(b[1:], left[:])
	copy(b[1+sha256.Size:], right[:])
	return sha256.Sum256(b[:])
}

// split is how many of n > 1 leaves are in the left subtree: the largest power
// of two below n (RFC 9162, section 2.1.1).
func split(n int) int { return 1 << (bits.Len(uint(n-1)) - 1) }

// inclusion is the path of one leaf: its siblings from the leaf up.
type inclusion struct {
	hashes [maxPath]byte
	n      int // bytes of hashes in use
}

func (p *inclusion) bytes() []byte { return p.hashes[:p.n] }

func (p *inclusion) up(sibling digest) { p.n += copy(p.hashes[p.n:], sibling[:]) }

// grow returns the root over leaves, of which there is at least one, and adds
// to paths[i] what leads from leaves[i] to that root (RFC 9162, section
// 2.1.3.1). Siblings are met from the leaves up, so all paths take one pass.
func grow(leaves []digest, paths []inclusion) digest {
	if len(leaves) == 1 {
		return leaves[0]
	}
	k := split(len(leaves))
	left, right := grow(leaves[:k], paths[:k]), grow(leaves[k:], paths[k:])
	for i := range paths {
		if i < k {
			paths[i].up(right)
		} else {
			paths[i].up(left)
		}
	}
	return hashNode(left, right)
}

// climb is grow seen from one leaf: the root of a tree of size leaves that has
// this one at index, given its path. Not ok: the path is too short or too long.
// It needs 0 <= index < size.
func climb(leaf digest, index, size int, path []byte) (root digest, ok bool) {
	if size == 1 {
		return leaf, len(path) == 0
	}
	below := len(path) - sha256.Size
	if below < 0 {
		return digest{}, false
	}
	sibling := digest(path[below:]) // of the child of the root that we are in
	k := split(size)
	if index < k {
		left, ok := climb(leaf, index, k, path[:below])
		return hashNode(left, sibling), ok
	}
	right, ok := climb(leaf, index-k, size-k, path[:below])
	return hashNode(sibling, right), ok
}

// batchContext opens the text that is signed for a run. No envelope and no
// notice starts like this, so a signature is never good for another form.
const batchContext = "edict/batch/v1\n"

// batchText is what is signed for a run (docs/design.md#delivery).
func batchText(size int, root digest) []byte {
	b := make([]byte, 0, len(batchContext)+8+sha256.Size)
	b = binary.BigEndian.AppendUint64(append(b, batchContext...), uint64(size))
	return append(b, root[:]...)
}
