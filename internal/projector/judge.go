package projector

import (
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/uuid"

	"github.com/edictdev/edict/policy"
)

// judge says what an event would do to the state, and writes nothing: it has no
// batch. The fold asks it before it applies an event; [View.WouldAccept] asks it
// for whoever wants to know before an event is published.
type judge struct {
	*state
	store *pebble.DB // what earlier batches wrote
	time  int64      // of the event, unix ns
	err   error      // the store could not be read: the fold does not use the verdict
	scratch
	rehearsed *Rehearsal // what came before and is not in the state; nil: nothing
}

// keep notes the first error.
func (j *judge) keep(err error) {
	if j.err == nil {
		j.err = err
	}
}

// WouldAccept is the verdict on an event, without a sequence, if it were the next
// of the log, at that time. It is given by the code that the fold runs. Another
// event may still come between, and a store that cannot be read makes it a guess: the
// fold judges again. The event must be one that [policy.Decode] accepts.
func (v *View) WouldAccept(e policy.Event, at time.Time) Verdict {
	j := judge{state: v.m.state, store: v.m.db, time: at.UnixNano()}
	return j.foresee(e)
}

// foresee is the verdict on an event that is not folded.
func (j *judge) foresee(e policy.Event) Verdict {
	if made := j.verdict(e); !made.accepted() {
		return made
	}
	if v := j.frozen(e); !v.accepted() {
		return v
	}
	return j.withinQuota(e)
}

func (j *judge) verdict(e policy.Event) (v Verdict) {
	switch ev := e.(type) {
	case policy.RevisionCreated:
		_, v = j.judgeRevision(ev, nil)
	case policy.PolicyDeleted:
		_, v = j.judgeDeletion(ev, nil)
	case policy.NodeUpdated:
		_, v = j.judgeNode(ev.Node, ev.Project, ev.ID, nil)
	case policy.NodeRemoved:
		_, v = j.judgeRemoval(ev, nil)
	case policy.ArtifactReleased:
		_, _, v = j.judgeRelease(ev, nil, nil)
	case policy.ArtifactWithdrawn:
		_, _, v = j.judgeWithdrawal(ev, nil)
	case policy.AdmissionPolicyUpdated:
		_, v = j.judgeAdmission(ev, nil)
	case policy.AdmissionPolicyDeleted:
		_, v = j.judgeAdmissionDeletion(ev, nil)
	case policy.PrincipalUpdated:
		_, v = j.judgePrincipal(ev, nil)
	case policy.PrincipalRemoved:
		_, v = j.judgePrincipalRemoval(ev, nil)
	case policy.RelationWritten:
		_, v = j.judgeGrant(ev, nil)
	case policy.RelationRemoved:
		_, v = j.judgeRevocation(ev, nil)
	case policy.NodeRegistered:
		_, v = j.judgeRegistration(ev, nil)
	case policy.KeyRotated:
		v = keyRotated(nil)
	case policy.RevisionStaged:
		_, v = j.judgeStaged(ev, nil)
	case policy.RevisionPromoted:
		_, v = j.judgePromoted(ev, nil)
	case policy.WaveOpened:
		_, v = j.judgeWave(ev, nil)
	case policy.RolloutStopped:
		_, v = j.judgeStopped(ev, nil)
	case policy.RolloutAborted:
		_, v = j.judgeAborted(ev, nil)
	case policy.ProjectQuotaUpdated:
		_, v = j.judgeQuota(ev, nil)
	case policy.ProjectArchived:
		v = j.judgeArchive(ev, nil)
	case policy.ProjectRestored:
		v = j.judgeRestore(ev, nil)
	default:
		v = unknownType()
	}
	return v
}

// accepted is the verdict on an event that is to be applied.
func (v Verdict) accepted() bool { return !v.Duplicate && v.Rejection == nil }

// slugHolder is the live policy of a project that has the slug; nil: none.
func (s *state) slugHolder(project uuid.UUID, slug string) *policyState {
	if p := s.projects[project]; p != nil {
		return p.slugs[slug]
	}
	return nil
}

// reteOf is a rete of a project that has signers; nil: none.
func (s *state) reteOf(project uuid.UUID, name string) *rete {
	if p := s.projects[project]; p != nil {
		return p.retes[name]
	}
	return nil
}
