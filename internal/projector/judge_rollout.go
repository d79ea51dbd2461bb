package projector

import (
	"github.com/google/uuid"

	"github.com/edictdev/edict/policy"
)

// judgeOfRollout is what the events about a rollout have in common: they are of a
// policy that lives and belongs to the project, and count once.
func (j *judge) judgeOfRollout(project, id, event uuid.UUID, fault *policy.DecodeError) (p *policyState, v Verdict) {
	p = j.policies[id]
	switch {
	case p != nil && p.project.id != project:
		return p, reject(CodePolicyNotOwned, "policy %s belongs to another project", id)
	case p != nil && j.applied(toPolicy(id, event)):
		return p, duplicate
	case fault != nil:
		return p, invalid(fault)
	case p == nil:
		return p, reject(CodeRevisionConflict, "there is no policy %s: publish its first revision, which cannot be staged", id)
	case p.deleted():
		return p, reject(CodeRevisionConflict, "policy %s is deleted: create a new one", id)
	}
	return p, Verdict{}
}

func (j *judge) judgeStaged(ev policy.RevisionStaged, fault *policy.DecodeError) (*policyState, Verdict) {
	p, v := j.judgeOfRollout(ev.Project, ev.Policy, ev.ID, fault)
	switch {
	case !v.accepted():
	case p.revisions.has(ev.Revision.ID):
		v = duplicate
	case p.underWay():
		v = underWay(p)
	case ev.Revision.Parent != p.head:
		v = reject(CodeRevisionConflict, "parent %s is not the head: stage a revision of %s instead", ev.Revision.Parent, p.head)
	}
	return p, v
}

func underWay(p *policyState) Verdict {
	return reject(CodeRolloutUnderWay, "revision %s of policy %s is being rolled out: wait until that has ended, or abort it", p.rollout.revision, p.id)
}

func (j *judge) judgePromoted(ev policy.RevisionPromoted, fault *policy.DecodeError) (*policyState, Verdict) {
	p, v := j.judgeOfRollout(ev.Project, ev.Policy, ev.ID, fault)
	switch {
	case !v.accepted():
	case p.underWay():
		v = underWay(p)
	case p.rollout == nil || p.rollout.phase != phaseStaged || p.rollout.revision != ev.Revision:
		v = reject(CodeNotStaged, "revision %s is not what is staged of policy %s: stage it first", ev.Revision, p.id)
	case p.rollout.parent != p.head:
		v = reject(CodeRevisionConflict, "revision %s was staged upon %s, and the head is %s: stage it again", ev.Revision, p.rollout.parent, p.head)
	}
	return p, v
}

// judgeMove judges an event that moves a rollout which is under way.
func (j *judge) judgeMove(project, id, event, revision uuid.UUID, fault *policy.DecodeError) (*policyState, Verdict) {
	p, v := j.judgeOfRollout(project, id, event, fault)
	if v.accepted() && (!p.underWay() || p.rollout.revision != revision) {
		v = reject(CodeNoRollout, "no rollout of revision %s of policy %s is under way", revision, id)
	}
	return p, v
}

func (j *judge) judgeWave(ev policy.WaveOpened, fault *policy.DecodeError) (*policyState, Verdict) {
	p, v := j.judgeMove(ev.Project, ev.Policy, ev.ID, ev.Revision, fault)
	switch {
	case !v.accepted():
	case int(ev.Wave) != len(p.rollout.opened)+1:
		v = reject(CodeWaveConflict, "the next wave is %d, not %d", len(p.rollout.opened)+1, ev.Wave)
	case ev.Gated && p.rollout.phase == phaseStopped:
		v = reject(CodeWaveConflict, "the rollout has stopped at wave %d", len(p.rollout.opened))
	}
	return p, v
}

func (j *judge) judgeStopped(ev policy.RolloutStopped, fault *policy.DecodeError) (*policyState, Verdict) {
	p, v := j.judgeMove(ev.Project, ev.Policy, ev.ID, ev.Revision, fault)
	switch {
	case !v.accepted():
	case int(ev.Wave) != len(p.rollout.opened):
		v = reject(CodeWaveConflict, "wave %d is open, not %d", len(p.rollout.opened), ev.Wave)
	case p.rollout.phase == phaseStopped:
		v = reject(CodeWaveConflict, "the rollout has stopped at wave %d already", ev.Wave)
	}
	return p, v
}

// judgeAborted accepts the end of what is staged, too.
func (j *judge) judgeAborted(ev policy.RolloutAborted, fault *policy.DecodeError) (*policyState, Verdict) {
	p, v := j.judgeOfRollout(ev.Project, ev.Policy, ev.ID, fault)
	if v.accepted() && (p.rollout == nil || p.rollout.over() || p.rollout.revision != ev.Revision) {
		v = reject(CodeNoRollout, "revision %s of policy %s is neither staged nor being rolled out", ev.Revision, ev.Policy)
	}
	return p, v
}
