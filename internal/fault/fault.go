// Package fault names the places where a test may strike: points at which the
// process can be killed, and mutants, deliberate mistakes of the product that
// its checkers must find. It is a leaf: it imports nothing of ours, and every
// room may call it.
//
// All of it is real only with the build tag faults. Without the tag the
// functions are empty or constant, and the compiler leaves nothing of a call.
// With it, two variables of the environment decide:
//
//	EDICT_FAULT=commit.after:17           kill -9 of itself at the 17th pass of that point
//	EDICT_FAULT=commit.after:p0.01@5      at each pass with probability 0.01, drawn from seed 5
//	EDICT_MUTANT=drop:3                   the mutant drop, drawn from seed 3
//
// Both take several, separated by commas. docs/faults.md says how campaigns
// use them.
package fault

// Point is a place in the product that is passed before or after something
// becomes durable, visible or somebody else's.
type Point string

// The points. Before: nothing of it has happened. After: it has, and nothing
// was sent or answered yet.
const (
	// CommitBefore and CommitAfter surround the write of a folded batch to the
	// read model, its sync included.
	CommitBefore Point = "commit.before"
	CommitAfter  Point = "commit.after"
	// AppendBefore and AppendAfter surround the publishing of an author's event
	// to the log.
	AppendBefore Point = "append.before"
	AppendAfter  Point = "append.after"
	// PublishBefore and PublishAfter surround the publishing on NATS of what a
	// round tells nodes; the lease does not have it yet.
	PublishBefore Point = "publish.before"
	PublishAfter  Point = "publish.after"
	// AcknowledgeBefore and AcknowledgeAfter surround the answer to a write over
	// HTTP: its verdict is known before, and the client may have read it after.
	AcknowledgeBefore Point = "acknowledge.before"
	AcknowledgeAfter  Point = "acknowledge.after"
	// LeaseBefore and LeaseAfter surround the renewal of a worker's lease.
	LeaseBefore Point = "lease.before"
	LeaseAfter  Point = "lease.after"
	// CheckpointBefore and CheckpointAfter surround the moment in which the
	// pointer comes to name a checkpoint that was stored.
	CheckpointBefore Point = "checkpoint.before"
	CheckpointAfter  Point = "checkpoint.after"
	// ArchiveBefore and ArchiveAfter surround the moment in which a segment of an
	// archive gets its name.
	ArchiveBefore Point = "archive.before"
	ArchiveAfter  Point = "archive.after"
	// ImportStored and ImportProved are steps of an import: the new log has every
	// event; it was proved, and is not open yet.
	ImportStored Point = "import.stored"
	ImportProved Point = "import.proved"
	// OriginStored, OriginProved, OriginRecorded and OriginPurged are the steps of a
	// compaction: the origin is stored; it was read back and proved; it is recorded; what
	// lies before it is removed.
	OriginStored   Point = "origin.stored"
	OriginProved   Point = "origin.proved"
	OriginRecorded Point = "origin.recorded"
	OriginPurged   Point = "origin.purged"
	// KeyMade, KeyRecorded, KeyLogged, KeyMove and KeyMoved are the steps of a
	// rotation: the new key is in a file of its own; the record names it; the log
	// does; the one before is in a file of its own; the new one is in its place.
	KeyMade     Point = "key.made"
	KeyRecorded Point = "key.recorded"
	KeyLogged   Point = "key.logged"
	KeyMove     Point = "key.move"
	KeyMoved    Point = "key.moved"
)

// Points lists every point.
func Points() []Point {
	return []Point{
		CommitBefore, CommitAfter, AppendBefore, AppendAfter,
		PublishBefore, PublishAfter, AcknowledgeBefore, AcknowledgeAfter,
		LeaseBefore, LeaseAfter, CheckpointBefore, CheckpointAfter,
		ArchiveBefore, ArchiveAfter, ImportStored, ImportProved,
		OriginStored, OriginProved, OriginRecorded, OriginPurged,
		KeyMade, KeyRecorded, KeyLogged, KeyMove, KeyMoved,
	}
}

// Mutant is one deliberate mistake.
type Mutant string

// The mutants, each a mistake that a fold, a hub, a resume, or another room that a
// promise rests on could make.
const (
	// Drop: the hub loses an edge.
	Drop Mutant = "drop"
	// LostTombstone: it leaves out that a row is gone.
	LostTombstone Mutant = "lost-tombstone"
	// CrossNode: it tells an edge to the streams of every node.
	CrossNode Mutant = "cross-node"
	// WrongID: a row is sent under the id of another.
	WrongID Mutant = "wrong-id"
	// WrongRevision: a resume tells the head of now, not that of the id.
	WrongRevision Mutant = "wrong-revision"
	// TwoContents: a row is sent with rules, or without.
	TwoContents Mutant = "two-contents"
	// WrongFingerprint: a message carries a fingerprint that is not its rules'.
	WrongFingerprint Mutant = "wrong-fingerprint"
	// Duplicate: a stream writes a frame twice.
	Duplicate Mutant = "duplicate"
	// Reorder: a resume is answered newest first.
	Reorder Mutant = "reorder"
	// Silence: a resume that owes the message to pull does not say it.
	Silence Mutant = "silence"
	// StaleJoin: a stream joins what is live later than its past was read.
	StaleJoin Mutant = "stale-join"
	// ForgottenLabels: the fold does not keep which labels a node had.
	ForgottenLabels Mutant = "forgotten-labels"
	// ForgottenSelectors: nor which selectors a policy had.
	ForgottenSelectors Mutant = "forgotten-selectors"
	// WindowEdge: an id of the last event whose past was dropped is not taken for
	// one from before the window.
	WindowEdge Mutant = "window-edge"
	// ResurrectedPolicy: the fold leaves a deleted policy on its selector, so
	// that the next node that matches gets it.
	ResurrectedPolicy Mutant = "resurrected-policy"
	// OneSide: a selector is matched by its source alone.
	OneSide Mutant = "one-side"
	// LazySync: the log's server answers before its disk has what it answers for.
	LazySync Mutant = "lazy-sync"
	// Unacknowledged: a write is answered as if the log had said that it has it.
	Unacknowledged Mutant = "unacknowledged"
	// StaleRead: a read that must not be old does not wait for the fold.
	StaleRead Mutant = "stale-read"
	// SharedKey: an Idempotency-Key is that of whoever shows it.
	SharedKey Mutant = "shared-key"
	// TakenID: whatever stands in the log under the message id of a write is the write.
	TakenID Mutant = "taken-id"
	// AnyBody: an Idempotency-Key stands for its first write, whatever it comes with.
	AnyBody Mutant = "any-body"
	// OpenDoor: whoever is known may do everything.
	OpenDoor Mutant = "open-door"
	// CredulousWitness: what the witness says differs from the fold, and that is
	// no matter.
	CredulousWitness Mutant = "credulous-witness"
	// AnyLog: the log is another than the witness speaks of, nor is that.
	AnyLog Mutant = "any-log"
	// Unverified: whatever a node is sent is accepted, whoever signed it.
	Unverified Mutant = "unverified"
	// Rollback: a node takes a version below the one it has.
	Rollback Mutant = "rollback"
	// UnresolvedBlock: a state has the rows of its node, whatever their order.
	UnresolvedBlock Mutant = "unresolved-block"
	// SwappedRules: the first two rules of a resolved block change places.
	SwappedRules Mutant = "swapped-rules"
	// ForgottenDefault: a resolved block lacks the default of a direction.
	ForgottenDefault Mutant = "forgotten-default"
	// UncountedRules: a resolved block does not count what it cannot say.
	UncountedRules Mutant = "uncounted-rules"
	// EarlyReport: an agent says that it applied what its kernel refused.
	EarlyReport Mutant = "early-report"
	// BoldWave: a rollout goes on, whoever refuses it.
	BoldWave Mutant = "bold-wave"
)

// Mutants lists every mutant.
func Mutants() []Mutant {
	return []Mutant{
		Drop, LostTombstone, CrossNode, WrongID, WrongRevision, TwoContents, WrongFingerprint, Duplicate, Reorder,
		Silence, StaleJoin, ForgottenLabels, ForgottenSelectors, WindowEdge, ResurrectedPolicy,
		OneSide, LazySync, Unacknowledged, StaleRead, SharedKey, TakenID, AnyBody, OpenDoor, CredulousWitness, AnyLog, Unverified, Rollback, EarlyReport, BoldWave,
		UnresolvedBlock, SwappedRules, ForgottenDefault, UncountedRules,
	}
}
