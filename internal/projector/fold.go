package projector

import (
	"github.com/cockroachdb/pebble/v2"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// sink takes what the fold writes. A Pebble batch is one.
type sink interface {
	Set(key, value []byte, _ *pebble.WriteOptions) error
	Delete(key []byte, _ *pebble.WriteOptions) error
}

// fold applies events, one by one, to memory and to one batch. Its err means that
// the batch must not be written.
type fold struct {
	judge
	batch sink
	base  uint64
	bulk  bool          // a rebuild: nobody looks on
	edges *edgeRecorder // nil: nobody wants to know what these events changed
	cache *cache
	seq   uint64
	trace streams.Trace
}

// scratch is memory that one batch leaves to the next.
type scratch struct {
	fresh map[appliedEvent]struct{}       // applied in this batch
	wrote map[compiler.Fingerprint][]byte // payloads, while edges are recorded
	key   []byte                          // of one write; the batch copies what it is given
	value []byte                          // of one write
}

func newScratch() scratch {
	return scratch{fresh: map[appliedEvent]struct{}{}, wrote: map[compiler.Fingerprint][]byte{}}
}

// reset keeps the maps of an ordinary batch; clearing those of a rebuild would take
// longer than making new ones.
func (s *scratch) reset() {
	const ordinary = 2000
	if len(s.fresh) > ordinary {
		*s = newScratch()
	}
	clear(s.fresh)
	clear(s.wrote)
}

func (f *fold) set(key, value []byte) { f.keep(f.batch.Set(key, value, nil)) }

func (f *fold) delete(key []byte) { f.keep(f.batch.Delete(key, nil)) }

// member stores that an identity matches a selector.
func (f *fold) member(selector, identity uint32) {
	f.key = appendMemberKey(f.key[:0], selector, identity)
	f.set(f.key, nil)
}

func (f *fold) noMember(selector, identity uint32) {
	f.key = appendMemberKey(f.key[:0], selector, identity)
	f.delete(f.key)
}

// event says what one event means. It is the only place that does.
func (f *fold) event(e *entry) Verdict {
	if e.fault != nil && (e.event == nil || e.fault.Code != policy.Invalid || nowhere(e.event)) {
		return invalid(e.fault)
	}
	if v, bad := claimFault(e); bad {
		return v
	}
	switch ev := e.event.(type) {
	case policy.RevisionCreated:
		return f.revisionCreated(ev, e)
	case policy.PolicyDeleted:
		return f.policyDeleted(ev, e.fault)
	case policy.NodeUpdated:
		return f.nodeUpdated(ev, e.fault)
	case policy.NodeRemoved:
		return f.nodeRemoved(ev, e.fault)
	case policy.ArtifactReleased:
		return f.artifactReleased(ev, e)
	case policy.ArtifactWithdrawn:
		return f.artifactWithdrawn(ev, e.fault)
	case policy.AdmissionPolicyUpdated:
		return f.admissionPolicyUpdated(ev, e.fault)
	case policy.AdmissionPolicyDeleted:
		return f.admissionPolicyDeleted(ev, e.fault)
	case policy.PrincipalUpdated:
		return f.principalUpdated(ev, e.fault)
	case policy.PrincipalRemoved:
		return f.principalRemoved(ev, e.fault)
	case policy.RelationWritten:
		return f.relationWritten(ev, e.fault)
	case policy.RelationRemoved:
		return f.relationRemoved(ev, e.fault)
	case policy.NodeRegistered:
		return f.nodeRegistered(ev, e.fault)
	case policy.KeyRotated:
		return keyRotated(e.fault)
	}
	return unknownType()
}

func unknownType() Verdict { return reject(policy.UnknownType, "unknown event type") }

func invalid(fault *policy.DecodeError) Verdict {
	v := reject(fault.Code, "%s", fault.Error())
	v.Rejection.Violations = fault.Violations
	return v
}

// storePayload keeps a payload for one more head or artifact.
func (f *fold) storePayload(fp compiler.Fingerprint, payload []byte) {
	if !f.payloads.take(fp) {
		return
	}
	f.set(payloadKey(fp), payload)
	if f.edges != nil {
		f.wrote[fp] = payload
	}
}

// release says that one head or artifact less has a payload.
func (f *fold) release(fp compiler.Fingerprint) {
	if f.payloads.release(fp) {
		f.delete(payloadKey(fp))
	}
}
