package resource

import "time"

// Snapshot is a checkpoint of the read model in the object store.
type Snapshot struct {
	Name    string    `json:"name"`
	Seq     uint64    `json:"seq"`
	Rows    int       `json:"rows"`
	Digest  string    `json:"digest"` // 64 hex digits
	Schema  uint32    `json:"schema"`
	Bytes   uint64    `json:"bytes"`
	Created time.Time `json:"created_at"`
	Worker  string    `json:"worker"`
}

// Fact is one of the things that the digest covers: a policy, a revision, a
// node or a row.
type Fact struct {
	Kind   string            `json:"kind"`
	Key    string            `json:"key"`
	Values map[string]string `json:"values"`
}
