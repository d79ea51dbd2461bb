package projector

import (
	"bytes"
	"encoding/binary"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/policy"
)

// SchemaVersion is the layout below. A store of a newer one is refused, one of
// an older one is rebuilt beside it. Version 2 keeps an edge's nodes as bitmaps
// of places; version 3 folds ordered policy, which older binaries rejected, and
// has admission policies; version 4 has artifacts; version 5 has no edges, but
// says since when things are as they are, and keeps the past; version 6 has a
// chain hash that names events by their bodies alone, and in relations to nodes
// the project; version 7 counts what each project takes of the log; version 8 has
// one place for the ids of applied events; version 9 has nodes of several retes; version
// 10 has rollouts; version 11 keeps the former ones; version 12 knows the last events
// of a node in its record, and has no memberships: they follow from the facts; version 13
// has quotas of projects; version 14 has archived
// ones, and knows of which rete the artifacts were that a node has no more; version 15 knows
// which bootstrap tokens were used and which quotas were given, also of what is no more;
// version 16 has a record for each relation.
const SchemaVersion = 16

// The key space. Numbers are big endian, so keys sort as the numbers do.
const (
	keySchema     = 's' // -> version u32, partitions u32
	keyCursor     = 'c' // -> cursor
	keyNode       = 'n' // project, node id -> nodeRecord
	keyApplied    = 'e' // kind of thing, thing, event id -> ; every event ever applied but those about facts of nodes (see appliedEvent)
	keyIdentity   = 'i' // ordinal -> project, labels
	keyPolicy     = 'p' // project, policy -> policyRecord; deleted ones too
	keyRevision   = 'v' // policy, sequence -> log time, event body verbatim
	keyRevisionID = 'w' // policy, revision -> sequence
	keySelector   = 'q' // ordinal -> project, source text, destination text
	keyPayload    = 'y' // fingerprint -> rule payload, verbatim
	keyLost       = 'o' // sequence -> lost
	keyFormer     = 'f' // sequence -> former
	keyWithdrawn  = 'x' // sequence, place u16 -> withdrawn
	keyRejection  = 'j' // sequence -> rejection as JSON
	keyAdmission  = 'a' // admission policy -> seq, event, times, author, document; deleted ones too
	keyPrincipal  = 'g' // principal -> version, seq, times, author, document; removed ones too
	keyRelation   = 'r' // principal, 0, relation -> seq, author
	keyArtifacts  = 't' // project, node id -> artifactSet; of a node without any, too. And project, node id, 0, rete -> that of one more rete
	keyRete       = 'u' // project, rete -> signers
	keyRelease    = 'l' // project, node id, 0, version -> sequence; every release ever applied. And project, node id, 0, rete, 0, version
	keyUsage      = 'd' // project -> the last hour, bytes of the log by hours
	keyRollout    = 'b' // policy -> rollout, with the event that would publish its revision. And policy, sequence of its first wave -> a former one that reached nodes
	keyQuota      = 'm' // project -> quota: what it bounds, and what was taken of the rates
	keyArchived   = 'z' // project -> sequence and log time of the event that archived it
	keyReported   = 'k' // -> rejections up to this sequence are in their stream
)

func schemaKey() []byte   { return []byte{keySchema} }
func cursorKey() []byte   { return []byte{keyCursor} }
func reportedKey() []byte { return []byte{keyReported} }

func nodeKey(project uuid.UUID, id policy.NodeID) []byte { return appendNodeKey(nil, project, id) }

func appendNodeKey(b []byte, project uuid.UUID, id policy.NodeID) []byte {
	return append(append(append(b, keyNode), project[:]...), id...)
}

func admissionKey(id policy.AdmissionPolicyID) []byte {
	return append([]byte{keyAdmission}, id...)
}

func principalKey(id policy.PrincipalID) []byte {
	return append([]byte{keyPrincipal}, id...)
}

func appendRelationKey(b []byte, id policy.PrincipalID, relation string) []byte {
	return append(append(append(append(b, keyRelation), id...), 0), relation...)
}

func appendIdentityKey(b []byte, ordinal uint32) []byte {
	return appendU32(append(b, keyIdentity), ordinal)
}

func policyKey(project, id uuid.UUID) []byte { return appendPolicyKey(nil, project, id) }

func appendPolicyKey(b []byte, project, id uuid.UUID) []byte {
	return append(append(append(b, keyPolicy), project[:]...), id[:]...)
}

func revisionKey(policy uuid.UUID, seq uint64) []byte { return appendRevisionKey(nil, policy, seq) }

func appendRevisionKey(b []byte, policy uuid.UUID, seq uint64) []byte {
	return appendU64(append(append(b, keyRevision), policy[:]...), seq)
}

func revisionIDKey(policy, revision uuid.UUID) []byte {
	return appendRevisionIDKey(nil, policy, revision)
}

func appendRevisionIDKey(b []byte, policy, revision uuid.UUID) []byte {
	return append(append(append(b, keyRevisionID), policy[:]...), revision[:]...)
}

func appendSelectorKey(b []byte, ordinal uint32) []byte {
	return appendU32(append(b, keySelector), ordinal)
}

func payloadKey(fp compiler.Fingerprint) []byte {
	return append([]byte{keyPayload}, fp[:]...)
}

// appendArtifactsKey appends the key of a node's set: of the first, or of the one of a
// rete beside it, which stands behind that.
func appendArtifactsKey(b []byte, project uuid.UUID, id policy.NodeID, beside string) []byte {
	return appendBeside(append(append(append(b, keyArtifacts), project[:]...), id...), beside)
}

// appendBeside appends the rete of a set beside a node's first.
func appendBeside(b []byte, rete string) []byte {
	if rete == "" {
		return b
	}
	return append(append(b, 0), rete...)
}

// cutBeside divides what follows the project in the key of a node's set.
func cutBeside(key []byte) (id policy.NodeID, beside string) {
	node, rete, _ := bytes.Cut(key, []byte{0})
	return policy.NodeID(node), string(rete)
}

func appendReteKey(b []byte, project uuid.UUID, name string) []byte {
	return append(append(append(b, keyRete), project[:]...), name...)
}

func appendReleaseKey(b []byte, project uuid.UUID, id policy.NodeID, beside string, version uint64) []byte {
	b = appendBeside(append(append(append(b, keyRelease), project[:]...), id...), beside)
	return appendU64(append(b, 0), version)
}

func appendRolloutKey(b []byte, id uuid.UUID) []byte { return append(append(b, keyRollout), id[:]...) }

func appendFormerRolloutKey(b []byte, id uuid.UUID, firstWave uint64) []byte {
	return appendU64(appendRolloutKey(b, id), firstWave)
}

func appendUsageKey(b []byte, project uuid.UUID) []byte {
	return append(append(b, keyUsage), project[:]...)
}

func appendArchivedKey(b []byte, project uuid.UUID) []byte {
	return append(append(b, keyArchived), project[:]...)
}

func appendQuotaKey(b []byte, project uuid.UUID) []byte {
	return append(append(b, keyQuota), project[:]...)
}

func rejectionKey(seq uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{keyRejection}, seq)
}

// after is the smallest key above every key with the prefix.
func after(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		end[i]++
		if end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}
