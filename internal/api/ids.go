package api

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/fault"
)

// id makes the id of one thing a write creates. Without an Idempotency-Key it
// is a fresh UUIDv7. With one it is the UUIDv8 of SHA-256 over principal,
// project, key and role (docs/design.md#the-fold-is-the-judge), so a retry makes the same ids and
// the log meets the same event twice. role names the operation, its target and
// the thing: one key used for two writes is two writes.
func (p *plane) id(c *call, project uuid.UUID, role string) (uuid.UUID, error) {
	if c.key == "" {
		id, err := p.NewID()
		if err != nil {
			return uuid.Nil, fmt.Errorf("make an id: %w", err)
		}
		return id, nil
	}
	c.asked = c.digest
	if fault.Always(fault.SharedKey) {
		return derivedID("", project, c.key, role), nil
	}
	return derivedID(c.principal, project, c.key, role), nil
}

// derivedID hashes each field behind its length, so that no two lists of
// fields run together.
func derivedID(principal string, project uuid.UUID, key, role string) uuid.UUID {
	h := sha256.New()
	for _, field := range [...]string{principal, string(project[:]), key, role} {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(field))))
		h.Write([]byte(field))
	}
	var id uuid.UUID
	copy(id[:], h.Sum(nil))
	id[6] = id[6]&0x0f | 0x80 // version 8
	id[8] = id[8]&0x3f | 0x80 // RFC 9562 variant
	return id
}
