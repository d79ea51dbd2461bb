package projector

import (
	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// fold applies events, one by one, to memory and to one batch. What it does for the
// events about one thing is in a type of its own, such as policyFold.
type fold struct {
	judge
	*writer
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
	key   []byte                          // of one look-up
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

// event says what one event means. It is the only place that does.
func (f *fold) event(e *entry) Verdict {
	if e.fault != nil && (e.event == nil || e.fault.Code != policy.Invalid || nowhere(e.event)) {
		return invalid(e.fault)
	}
	if v, bad := claimFault(e); bad {
		return v
	}
	if v, refused := f.refuses(e); refused {
		return v
	}
	switch ev := e.event.(type) {
	case policy.RevisionCreated:
		return policyFold{f}.revisionCreated(ev, e)
	case policy.PolicyDeleted:
		return policyFold{f}.policyDeleted(ev, e.fault)
	case policy.NodeUpdated:
		return nodeFold{f}.nodeUpdated(ev, e.fault)
	case policy.NodeRemoved:
		return nodeFold{f}.nodeRemoved(ev, e.fault)
	case policy.ArtifactReleased:
		return artifactFold{f}.artifactReleased(ev, e)
	case policy.ArtifactWithdrawn:
		return artifactFold{f}.artifactWithdrawn(ev, e.fault)
	case policy.AdmissionPolicyUpdated:
		return admissionFold{f}.admissionPolicyUpdated(ev, e.fault)
	case policy.AdmissionPolicyDeleted:
		return admissionFold{f}.admissionPolicyDeleted(ev, e.fault)
	case policy.PrincipalUpdated:
		return accessFold{f}.principalUpdated(ev, e.fault)
	case policy.PrincipalRemoved:
		return accessFold{f}.principalRemoved(ev, e.fault)
	case policy.RelationWritten:
		return accessFold{f}.relationWritten(ev, e.fault)
	case policy.RelationRemoved:
		return accessFold{f}.relationRemoved(ev, e.fault)
	case policy.NodeRegistered:
		return accessFold{f}.nodeRegistered(ev, e.fault)
	case policy.KeyRotated:
		return keyRotated(e.fault)
	case policy.RevisionStaged:
		return rolloutFold{policyFold{f}}.revisionStaged(ev, e)
	case policy.RevisionPromoted:
		return rolloutFold{policyFold{f}}.revisionPromoted(ev, e.fault)
	case policy.WaveOpened:
		return rolloutFold{policyFold{f}}.waveOpened(ev, e.fault)
	case policy.RolloutStopped:
		return rolloutFold{policyFold{f}}.rolloutStopped(ev, e.fault)
	case policy.RolloutAborted:
		return rolloutFold{policyFold{f}}.rolloutAborted(ev, e.fault)
	case policy.ProjectQuotaUpdated:
		return quotaFold{f}.quotaUpdated(ev, e.fault)
	case policy.ProjectArchived:
		return archiveFold{f}.projectArchived(ev, e.fault)
	case policy.ProjectRestored:
		return archiveFold{f}.projectRestored(ev, e.fault)
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
