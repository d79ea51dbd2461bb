package node

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/policy"
)

// Row is what one policy says to the node now.
type Row struct {
	Policy      uuid.UUID
	Revision    uuid.UUID
	Fingerprint [sha256.Size]byte
	// Rules is what the node contract can express of the compiled payload: a compact
	// JSON array, "[]" where that is nothing.
	Rules json.RawMessage
}

// set is the rows of one node, as far as it was told.
type set struct {
	mu      sync.RWMutex
	byID    map[uuid.UUID]Row
	lastIDs map[uuid.UUID]policy.EventID // told since the last pull, so that none falls back
}

// replace puts what a pull brought in place of everything told before.
func (r *set) replace(all []Row) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byID = make(map[uuid.UUID]Row, len(all))
	for _, row := range all {
		r.byID[row.Policy] = row
	}
	r.lastIDs = nil // of another log perhaps
}

// apply takes a policy_updated. It reports false, and changes nothing, when the
// event is older than one applied before.
func (r *set) apply(e Event) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := e.Policy
	if e.ID < r.lastIDs[p.PolicyID] {
		return false
	}
	if r.byID == nil {
		r.byID = map[uuid.UUID]Row{}
	}
	if r.lastIDs == nil {
		r.lastIDs = map[uuid.UUID]policy.EventID{}
	}
	r.lastIDs[p.PolicyID] = e.ID
	if gone(p) {
		delete(r.byID, p.PolicyID)
	} else {
		r.byID[p.PolicyID] = Row{p.PolicyID, p.RevisionID, p.Fingerprint, p.Rules}
	}
	return true
}

// lastID is the id under which a policy was told last since the last pull; 0: it
// was not.
func (r *set) lastID(id uuid.UUID) policy.EventID {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.lastIDs[id]
}

// holds reports whether the rows say of a policy what p does.
func (r *set) holds(p *artifact.PolicyPayload) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	row, has := r.byID[p.PolicyID]
	if !has || gone(p) {
		return !has && gone(p)
	}
	return row.Fingerprint == p.Fingerprint
}

// gone reports whether p says that its policy says nothing any more.
func gone(p *artifact.PolicyPayload) bool { return p.RulesOmitted == 0 && withdrawn(p.Rules) }

// withdrawn reports whether rules are none: the policy says nothing any more.
func withdrawn(rules json.RawMessage) bool {
	return len(rules) >= 2 && len(bytes.TrimSpace(rules[1:len(rules)-1])) == 0
}

// list returns the rows by ascending policy id.
func (r *set) list() []Row {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.SortedFunc(maps.Values(r.byID), func(a, b Row) int {
		return bytes.Compare(a.Policy[:], b.Policy[:])
	})
}

// merged is what a node that has the rows must apply: the rules of all, by
// ascending policy id. The zero value is that of a node without rows, to which no
// policy says anything.
func merged(rows []Row) compiler.Block {
	in := make([]compiler.Row, len(rows))
	for i, r := range rows {
		in[i] = compiler.Row{Policy: r.Policy, Revision: r.Revision, Fingerprint: r.Fingerprint, Payload: r.Rules}
	}
	b, _ := compiler.Merge(in)
	return b
}
