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
	"github.com/edictdev/edict/internal/compiler/firstmatch"
	"github.com/edictdev/edict/policy"
)

// Row is the rules of one policy for the node.
type Row struct {
	Policy      uuid.UUID
	Revision    uuid.UUID
	Fingerprint [sha256.Size]byte
	// Rules is the plain part of the compiled payload (compiler.Plain): a compact JSON
	// array, "[]" if it is empty.
	Rules json.RawMessage
}

// set is the rows that a node has received.
type set struct {
	mu       sync.RWMutex
	byID     map[uuid.UUID]Row
	resolved *compiler.Block              // of the state that was pulled last; nil: the rows say all
	lastIDs  map[uuid.UUID]policy.EventID // of the last event of a policy since the last pull, so that an older one changes nothing
}

// replace replaces all rows by those of a pull.
func (r *set) replace(s State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byID = make(map[uuid.UUID]Row, len(s.Rows))
	for _, row := range s.Rows {
		r.byID[row.Policy] = row
	}
	r.lastIDs = nil // they may be of another log
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

// lastID is the id of the last event of a policy since the last pull; 0: there was
// none.
func (r *set) lastID(id uuid.UUID) policy.EventID {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.lastIDs[id]
}

// holds reports whether the rows agree with p.
func (r *set) holds(p *artifact.PolicyPayload) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	row, has := r.byID[p.PolicyID]
	if !has || gone(p) {
		return !has && gone(p)
	}
	return row.Fingerprint == p.Fingerprint
}

// says reports whether the rows have the same rules of the same revision as p.
func (r *set) says(p *artifact.PolicyPayload) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	row, has := r.byID[p.PolicyID]
	return has && row.Revision == p.RevisionID && row.Fingerprint == p.Fingerprint
}

// gone reports whether p is a tombstone: its policy no longer applies to the node.
func gone(p *artifact.PolicyPayload) bool { return p.RulesOmitted == 0 && withdrawn(p.Rules) }

// withdrawn reports whether rules are the empty array.
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

// mayConflict reports whether an allow of the rows stands before a deny of the same
// flows, or the rows did not say by themselves what the node must apply when its state
// was pulled last.
func (r *set) mayConflict() bool {
	if r.isResolved() {
		return true
	}
	var rules []firstmatch.Rule
	return json.Unmarshal(merged(r.list()).Rules, &rules) == nil && firstmatch.Conflict(rules)
}

func (r *set) isResolved() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.resolved != nil
}

// resolve takes the block of a state where that is resolved, and leaves the rows.
func (r *set) resolve(s State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.resolved = nil; s.Resolved {
		r.resolved = &s.Merged
	}
}

// block is the rules that the node must apply.
func (r *set) block() compiler.Block {
	r.mu.RLock()
	b := r.resolved
	r.mu.RUnlock()
	if b != nil {
		return *b
	}
	return merged(r.list())
}

// merged is the rules that a node with these rows must apply. It is zero if there are
// no rows.
func merged(rows []Row) compiler.Block {
	in := make([]compiler.Row, len(rows))
	for i, r := range rows {
		in[i] = compiler.Row{Policy: r.Policy, Revision: r.Revision, Fingerprint: r.Fingerprint, Payload: r.Rules}
	}
	b, _ := compiler.Merge(in)
	return b
}
