package snapshot

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/compiler/datapath"
)

// refusedKey names a list of a project and the kinds of the nodes it met: all that
// decides whether its table can be made, and why not.
type refusedKey struct {
	project uuid.UUID
	of      contents
}

// refusedList is why a list's table cannot be made, and the steps that it takes to
// find that out.
type refusedList struct {
	err   error
	steps int
}

func refusedKeyOf(project uuid.UUID, rules contents, ids []datapath.Identity) refusedKey {
	h := sha256.New()
	line := rules[:]
	for i := range ids {
		line = append(binary.AppendUvarint(line, uint64(len(ids[i].Name))), ids[i].Name...)
		h.Write(line)
		line = line[:0]
	}
	h.Write(line)
	return refusedKey{project, contents(h.Sum(nil))}
}

// refusedLists are those used last, each with some kinds of nodes, at whatever moment.
// The search for a last good table meets the same again and again, now and each time
// it is asked again. Safe for concurrent use.
type refusedLists struct {
	mu   sync.Mutex
	kept *keeper[refusedKey, refusedList]
}

func newRefusedLists() *refusedLists {
	return &refusedLists{kept: newKeeper[refusedKey, refusedList](bytesOfRefusals)}
}

func (l *refusedLists) get(key refusedKey) (refusedList, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kept.get(key)
}

func (l *refusedLists) put(key refusedKey, r refusedList) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept.put(key, r, bytesPerRefusal)
}

// bytesPerRefusal is about what one takes in memory, and bytesOfRefusals what all may.
const (
	bytesPerRefusal = 256
	bytesOfRefusals = 1 << 20
)
