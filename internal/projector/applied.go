package projector

import (
	"github.com/cockroachdb/pebble/v2"
	"github.com/google/uuid"

	"github.com/edictdev/edict/policy"
)

// appliedEvent is an event that was applied to one thing. The fold remembers each
// for ever: one that is met again must not undo what newer events did. Of the facts
// of a node it knows the last (see recent).
type appliedEvent struct {
	kind  byte   // of the thing: one of the letters below
	node  uint32 // ordinal of a node
	id    string // of anything else; empty for a nonce and a token
	event uuid.UUID
}

// Kinds of things that events are applied to, in keys.
const (
	appliedNode      = 'n' // to the artifacts of a node
	appliedAdmission = 'a' // to an admission policy
	appliedPrincipal = 'p' // to a principal or its relations
	appliedPolicy    = 'w' // to the rollout of a policy
	appliedProject   = 'z' // to whether a project is archived
	appliedQuota     = 'q' // to the quota of a project
	appliedNonce     = 'r' // the id is that of a registration's nonce
	appliedToken     = 'b' // the id is that of a bootstrap token that was used
)

func toNode(ordinal uint32, event uuid.UUID) appliedEvent {
	return appliedEvent{kind: appliedNode, node: ordinal, event: event}
}

func toPolicy(id, event uuid.UUID) appliedEvent {
	return appliedEvent{kind: appliedPolicy, id: string(id[:]), event: event}
}

func toAdmission(id policy.AdmissionPolicyID, event uuid.UUID) appliedEvent {
	return appliedEvent{kind: appliedAdmission, id: string(id), event: event}
}

func toPrincipal(id policy.PrincipalID, event uuid.UUID) appliedEvent {
	return appliedEvent{kind: appliedPrincipal, id: string(id), event: event}
}

func toProject(id, event uuid.UUID) appliedEvent {
	return appliedEvent{kind: appliedProject, id: string(id[:]), event: event}
}

func toQuota(project, event uuid.UUID) appliedEvent {
	return appliedEvent{kind: appliedQuota, id: string(project[:]), event: event}
}

// ofToken is the use of a bootstrap token, by its hash.
func ofToken(hash [32]byte) appliedEvent {
	return appliedEvent{kind: appliedToken, event: uuid.UUID(hash[:16])}
}

// ofNonce is the use of a nonce, by its hash.
func ofNonce(hash [32]byte) appliedEvent {
	return appliedEvent{kind: appliedNonce, event: uuid.UUID(hash[:16])}
}

func (a appliedEvent) appendKey(b []byte) []byte {
	b = append(b, keyApplied, a.kind)
	if a.kind == appliedNode {
		b = appendU32(b, a.node)
	} else {
		b = append(append(b, a.id...), 0)
	}
	return append(b, a.event[:]...)
}

// applied reports whether an event was applied before. It is exact.
func (j *judge) applied(a appliedEvent) bool {
	if _, ok := j.fresh[a]; ok {
		return true
	}
	j.key = a.appendKey(j.key[:0])
	return j.stored(j.key)
}

// noteApplied remembers that an event was applied.
func (f *fold) noteApplied(a appliedEvent) {
	f.fresh[a] = struct{}{}
	f.key = a.appendKey(f.key[:0])
	f.set(f.key, nil)
}

// noteDuplicate remembers an event whose verdict is that it changes nothing: met
// again after newer events, it must be known as an old one.
func (f *fold) noteDuplicate(a appliedEvent, v Verdict) {
	if v.Duplicate && !f.applied(a) {
		f.noteApplied(a)
	}
}

// noted remembers an event by its verdict, as applied or as a duplicate, and reports whether
// the caller is to apply it.
func (f *fold) noted(a appliedEvent, v Verdict) (accepted bool) {
	if v.accepted() {
		f.noteApplied(a)
		return true
	}
	f.noteDuplicate(a, v)
	return false
}

// appliedToNode asks the filter in memory first: it spares most look-ups, and
// never answers yes by itself.
func (j *judge) appliedToNode(ordinal uint32, seen uint64, event uuid.UUID) bool {
	if b := eventBits(event); seen&b != b {
		return false
	}
	return j.applied(toNode(ordinal, event))
}

// stored reports whether an earlier batch wrote the key.
func (j *judge) stored(key []byte) bool {
	_, closer, err := j.store.Get(key)
	if err == pebble.ErrNotFound {
		return false
	}
	if err != nil {
		j.keep(err)
		return false
	}
	closer.Close()
	return true
}

// eventBits are the two bits an event id sets in the filter of a node. After k
// events a new id meets both set with probability about (2k/64)²; only then the
// store is asked whether the id was really seen.
func eventBits(id uuid.UUID) uint64 {
	return 1<<(id[14]&63) | 1<<(id[15]&63)
}
