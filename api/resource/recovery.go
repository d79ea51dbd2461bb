package resource

import "time"

// Snapshot is a checkpoint of the read model in the object store.
type Snapshot struct {
	Name    string    `json:"name" doc:"Its name in the object store EDICT_SNAPSHOTS."`
	Seq     uint64    `json:"seq" doc:"The log sequence it stands at."`
	Rows    int       `json:"rows" doc:"Rows it holds, of all nodes together."`
	Digest  string    `json:"digest" doc:"Its digest: that of any worker at the same sequence."` // 64 hex digits
	Schema  uint32    `json:"schema" doc:"The layout of the store; only a binary of the same one starts from it."`
	Bytes   uint64    `json:"bytes" doc:"Its size, compressed."`
	Created time.Time `json:"created_at" doc:"When it was made, by the clock of the worker that did."`
	Worker  string    `json:"worker" doc:"Which worker that was."`
}

// LogOrigin is where a log begins that was compacted.
type LogOrigin struct {
	Seq     uint64    `json:"seq" doc:"The first event that is kept."`
	Chain   string    `json:"chain" doc:"The chain hash with that event."`                               // 64 hex digits
	Digest  string    `json:"digest" doc:"The digest of what was folded up to it, that event included."` // 64 hex digits
	Rows    int       `json:"rows" doc:"Rows of that, of all nodes together."`
	Bytes   uint64    `json:"bytes" doc:"Its size, compressed."`
	Archive string    `json:"archive,omitempty" doc:"What the archive of the removed events is called; absent where nobody named one."`
	Created time.Time `json:"created_at" doc:"When it was made, by the clock of the worker that did."`
	Worker  string    `json:"worker" doc:"Which worker that was."`
}

// Fact is one of the things that the digest covers: a policy, a revision, a
// node or a row.
type Fact struct {
	Kind   string            `json:"kind" doc:"What it is."`
	Key    string            `json:"key" doc:"Names it: project/policy, policy/sequence, project/node or node/policy."`
	Values map[string]string `json:"values" doc:"What it says, by name. Of a node, rows is a hash over its labels and all its rows."`
}
