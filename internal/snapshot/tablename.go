package snapshot

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/edictdev/edict/internal/compiler/datapath"
)

// tableKey names a table among those of all projects.
type tableKey [sha256.Size]byte

// listKey names a list of rules and the moment of the nodes.
type listKey [sha256.Size]byte

// nodeList is what a node enforces of some policies, and the sum of each of their
// revisions, by policy.
type nodeList struct {
	datapath.NodeList
	of map[string]contents
}

// sumOf is equal for equal lists of one project: which rules of which revisions
// they have, in which direction, which of them are for any peer, and whether the
// list is closed.
func sumOf(list nodeList) (sum contents) {
	h, rules := sha256.New(), list.Rules
	line := []byte{0}
	if list.Closed {
		line[0] = 1
	}
	h.Write(line)
	for i := range rules {
		r := &rules[i]
		line = append(line[:0], byte(r.Direction))
		of := list.of[r.Ref.Policy]
		line = append(line, of[:]...)
		line = append(line, byte(r.Ref.Index>>8), byte(r.Ref.Index), 0)
		if r.Peer.Any {
			line[len(line)-1] = 1
		}
		h.Write(line)
	}
	h.Sum(sum[:0])
	return sum
}

// keyOf names a list by its sum, and a moment.
func keyOf(rules contents, at uint64) listKey {
	return sha256.Sum256(binary.BigEndian.AppendUint64(rules[:], at))
}
