package projector

import (
	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/policy"
)

// rolloutFold applies events about the rollout of a revision.
type rolloutFold struct{ policyFold }

// apply does what an accepted event asks for, and stores the rollout after it.
func (f rolloutFold) apply(p *policyState, v Verdict, event uuid.UUID, do func()) Verdict {
	if v.accepted() {
		do()
		f.noteApplied(toPolicy(p.id, event))
		f.storeRollout(p)
	}
	return v
}

// revisionStaged keeps a revision beside the head.
func (f rolloutFold) revisionStaged(ev policy.RevisionStaged, e *entry) Verdict {
	p, v := f.judgeStaged(ev, e.fault)
	return f.apply(p, v, ev.ID, func() {
		publishes := policy.RevisionCreated{ID: ev.ID, Project: ev.Project, Policy: ev.Policy, Slug: p.slug, DisplayName: p.name, Revision: ev.Revision}
		f.storeFormer(p)
		p.rollout = &rollout{
			revision: ev.Revision.ID, parent: ev.Revision.Parent, phase: phaseStaged, staged: f.moment(),
			fp: e.ruleset.Fingerprint, selector: ev.Revision.Selector, extended: ev.Revision.Content().Extended(),
			body: policy.Append(nil, publishes),
		}
	})
}

// revisionPromoted opens the first wave; without waves it publishes the revision.
func (f rolloutFold) revisionPromoted(ev policy.RevisionPromoted, fault *policy.DecodeError) Verdict {
	p, v := f.judgePromoted(ev, fault)
	return f.apply(p, v, ev.ID, func() {
		p.rollout.waves, p.rollout.gate = ev.Waves, ev.Gate
		f.open(p)
	})
}

func (f rolloutFold) waveOpened(ev policy.WaveOpened, fault *policy.DecodeError) Verdict {
	p, v := f.judgeWave(ev, fault)
	return f.apply(p, v, ev.ID, func() { f.open(p) })
}

func (f rolloutFold) rolloutStopped(ev policy.RolloutStopped, fault *policy.DecodeError) Verdict {
	p, v := f.judgeStopped(ev, fault)
	return f.apply(p, v, ev.ID, func() {
		if p.rollout.gate.Abort {
			f.goBack(p, phaseAborted, ev.Reason)
			return
		}
		p.rollout.phase, p.rollout.ended, p.rollout.reason = phaseStopped, f.moment(), ev.Reason
	})
}

func (f rolloutFold) rolloutAborted(ev policy.RolloutAborted, fault *policy.DecodeError) Verdict {
	p, v := f.judgeAborted(ev, fault)
	return f.apply(p, v, ev.ID, func() { f.goBack(p, phaseAborted, ev.Reason) })
}

// open opens the next wave of a rollout.
func (f rolloutFold) open(p *policyState) {
	r := p.rollout
	r.opened = append(r.opened, f.moment())
	if r.phase == phaseStopped {
		r.phase, r.ended, r.reason = phaseUnderWay, moment{}, ""
	}
	if len(r.opened) > len(r.waves) {
		f.complete(p)
		return
	}
	reached := r.waves[:len(r.opened)]
	before := armsOf(p)
	if r.trial == nil {
		r.phase = phaseUnderWay
		f.storePayload(r.fp, compiler.Compile(f.staged(r).Revision.InForce()).Payload)
		r.trial = p.newTrial(f.seq, f.time)
		p.ever.note(r.extended, false)
		f.underWay[p] = struct{}{}
	}
	f.reselect(p, p.selector.sel, &scope{waves: reached, outside: true})
	f.reselect(r.trial, r.selector, &scope{waves: reached})
	r.trial.since = f.moment()
	f.compare(before, armsOf(p))
	f.moved(p, r.trial)
}

// newTrial is the arm of the policy's rollout, which begins.
func (p *policyState) newTrial(seq uint64, time int64) *policyState {
	trial := &policyState{
		id: p.id, number: p.number, project: p.project, of: p, created: p.created,
		head: p.rollout.revision, headSeq: seq, headTime: time, fp: p.rollout.fp, extended: extensionOf(p.rollout.extended),
	}
	trial.revisions.add(seq, trial.head)
	return trial
}

// staged is the event that would publish the revision of a rollout.
func (f rolloutFold) staged(r *rollout) policy.RevisionCreated {
	ev, err := r.event()
	f.keep(err)
	return ev
}

// complete makes the revision of a rollout the head.
func (f rolloutFold) complete(p *policyState) {
	r, ev, e := p.rollout, f.staged(p.rollout), entry{}
	e.msg.Body, e.ruleset.Fingerprint = r.body, r.fp
	if r.phase == phaseStaged {
		e.ruleset.Payload = compiler.Compile(ev.Revision.InForce()).Payload
		f.publish(p, ev, &e)
	} else {
		before, old := armsOf(p), p.fp
		f.reselect(p, r.selector, nil)
		f.payloads.take(r.fp) // its arm has stored it
		f.disarm(p)
		f.release(old)
		p.since = f.moment()
		f.crown(p, ev, &e)
		f.compare(before, armsOf(p))
		r.phase = phaseCompleted
		f.moved(p, p)
	}
	r.end(phaseCompleted, f.moment(), "")
}

// goBack ends a rollout: every node has what the head says.
func (f rolloutFold) goBack(p *policyState, to phase, reason string) {
	r := p.rollout
	if r.underWay() {
		before := armsOf(p)
		f.reselect(p, p.selector.sel, nil)
		f.disarm(p)
		p.since = f.moment()
		f.compare(before, armsOf(p))
		r.phase = to
		f.moved(p, p)
	}
	r.end(to, f.moment(), reason)
}

func (r *rollout) end(as phase, at moment, reason string) {
	r.phase, r.ended, r.reason, r.body, r.trial = as, at, reason, nil, nil
}

// moved records what an event of a rollout changed. has is the arm whose row nodes
// are sent.
func (f rolloutFold) moved(p, has *policyState) {
	extended, err := f.headExtended(p)
	f.keep(err)
	f.logPolicyChange(p, extended || p.underWay() && p.rollout.extended, false)
	f.storePolicy(p)
	f.record(has)
}

// arm is what an arm of a policy says, and to whom.
type arm struct {
	fp         compiler.Fingerprint
	identities set // as they are now: a selector that ends has none
}

// armsOf are the arms of a policy.
func armsOf(p *policyState) (arms []arm) {
	arms = append(arms, arm{p.fp, p.selector.identities})
	if p.rollout.trial != nil {
		arms = append(arms, arm{p.rollout.fp, p.rollout.trial.selector.identities})
	}
	return arms
}

// compare gathers who has a row that differs from the one before, and who has none
// any more. A label set is in one arm at most.
func (f *fold) compare(before, after []arm) {
	if f.edges == nil {
		return
	}
	var still set
	for _, now := range after {
		var same set
		for _, was := range before {
			if was.fp == now.fp {
				same.join(&was.identities)
			}
		}
		f.gather(f.have, &now.identities, &same)
		still.join(&now.identities)
	}
	for _, was := range before {
		f.gather(f.lost, &was.identities, &still)
	}
}

// reselect gives an arm another selector: its scope is never the one before.
func (f rolloutFold) reselect(p *policyState, sel policy.Selector, within *scope) {
	before, now := p.selector, f.intern(p.project, sel, within)
	now.generation = f.seq
	if before != nil {
		f.keepLost(p)
	}
	p.selected, p.selector = f.seq, now
	now.policies = append(now.policies, p)
	if before != nil {
		f.unuse(before, p)
	}
}

// disarm ends the arm of a rollout.
func (f policyFold) disarm(p *policyState) {
	trial := p.rollout.trial
	f.keepLost(trial)
	f.release(trial.fp)
	f.unuse(trial.selector, trial)
	p.rollout.trial = nil
	delete(f.underWay, p)
}

// storeFormer keeps a rollout that reached nodes when another takes its place: what
// nodes had, and since when, does not follow from the heads.
func (f rolloutFold) storeFormer(p *policyState) {
	if r := p.rollout; r != nil && len(r.opened) > 0 {
		f.key, f.value = appendFormerRolloutKey(f.key[:0], p.id, r.opened[0].seq), r.append(f.value[:0])
		f.set(f.key, f.value)
	}
}

func (f policyFold) storeRollout(p *policyState) {
	f.key = appendRolloutKey(f.key[:0], p.id)
	f.value = p.rollout.append(f.value[:0])
	f.set(f.key, f.value)
}
