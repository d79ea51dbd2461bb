package compiler

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"time"

	"github.com/google/uuid"
)

// Row is one (node, policy) row of the specification, as the merge takes it.
type Row struct {
	Policy      uuid.UUID
	Revision    uuid.UUID
	Fingerprint Fingerprint
	Payload     []byte
	CompiledAt  time.Time // log timestamp of the head revision
}

// Block is a node's merged policy block.
type Block struct {
	Revision    uuid.UUID   // of the row with the lowest policy id
	Fingerprint Fingerprint // SHA-256 of the payloads in policy id order
	Rules       []byte      // one JSON array: the payloads' elements in that order
}

// Merge reduces a node's rows to one block, working on the payloads' bytes
// (docs/design.md#compile). Rows may come in any order; ok is false when there are
// none. With one row, Rules is that row's Payload itself.
func Merge(rows []Row) (b Block, ok bool) {
	switch len(rows) {
	case 0:
		return Block{}, false
	case 1:
		return Block{rows[0].Revision, FingerprintOf(rows[0].Payload), rows[0].Payload}, true
	}
	byPolicy := func(a, b Row) int { return bytes.Compare(a.Policy[:], b.Policy[:]) }
	if !slices.IsSortedFunc(rows, byPolicy) {
		rows = slices.Clone(rows)
		slices.SortFunc(rows, byPolicy)
	}
	size := len("[]")
	for _, r := range rows {
		size += len(r.Payload)
	}
	hash := sha256.New()
	rules := append(make([]byte, 0, size), '[')
	for _, r := range rows {
		hash.Write(r.Payload)
		elements := r.Payload[1 : len(r.Payload)-1]
		if len(elements) > 0 && len(rules) > 1 {
			rules = append(rules, ',')
		}
		rules = append(rules, elements...)
	}
	b = Block{Revision: rows[0].Revision, Rules: append(rules, ']')}
	hash.Sum(b.Fingerprint[:0])
	return b, true
}

// MergePlain is Merge of the plain part of each row (Plain): what a node's state
// shows. omitted counts the rules that this leaves out.
func MergePlain(rows []Row) (b Block, omitted int, ok bool) {
	rows = slices.Clone(rows)
	for i := range rows {
		r := &rows[i]
		plain := Plain(r.Payload, r.Fingerprint)
		r.Payload, r.Fingerprint = plain.Payload, plain.Fingerprint
		omitted += plain.Omitted
	}
	b, ok = Merge(rows)
	return b, omitted, ok
}
