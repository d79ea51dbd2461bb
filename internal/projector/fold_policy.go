package projector

import (
	"slices"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/fault"
	"github.com/edictdev/edict/policy"
)

// policyFold applies events about policies.
type policyFold struct{ *fold }

// judgeRevision accepts a revision unless it has been applied before, or its
// parent is not the head it meets. p is its policy, nil if this is the first.
func (j *judge) judgeRevision(ev policy.RevisionCreated, fault *policy.DecodeError) (p *policyState, v Verdict) {
	p = j.policies[ev.Policy]
	switch {
	case p != nil && p.project.id != ev.Project:
		return p, reject(CodePolicyNotOwned, "policy %s belongs to another project: choose a new id", ev.Policy)
	case p != nil && p.revisions.has(ev.Revision.ID):
		return p, duplicate
	case fault != nil:
		return p, invalid(fault)
	}
	if v, bad := parentFault(p, ev); bad {
		return p, v
	}
	if p != nil && p.underWay() {
		return p, underWay(p)
	}
	if holder := j.slugHolder(ev.Project, ev.Slug); holder != nil && holder != p {
		return p, reject(CodePolicySlugTaken, "slug %q is used by policy %s: choose another", ev.Slug, holder.id)
	}
	if p == nil && j.accepted >= policy.MaxPolicies {
		return p, reject(CodePolicyLimit, "the plane has accepted %d policies in its life, and has no number for another: revise a policy that lives", j.accepted)
	}
	return p, Verdict{}
}

// revisionCreated makes a revision the head of its policy.
func (f policyFold) revisionCreated(ev policy.RevisionCreated, e *entry) Verdict {
	p, v := f.judgeRevision(ev, e.fault)
	if !v.accepted() {
		return v
	}
	if p == nil {
		p = &policyState{id: ev.Policy, number: f.accepted, project: f.project(ev.Project), created: f.time}
		f.accepted++
		f.policies[ev.Policy] = p
		f.live.policies++
	}
	f.publish(p, ev, e)
	return Verdict{}
}

// parentFault is the compare-and-set of docs/design.md#the-fold-is-the-judge.
func parentFault(p *policyState, ev policy.RevisionCreated) (Verdict, bool) {
	parent := ev.Revision.Parent
	switch {
	case p == nil && parent == uuid.Nil:
		return Verdict{}, false
	case p == nil:
		return reject(CodeRevisionConflict, "policy %s has no revision %s: the first revision's parent_id is null", ev.Policy, parent), true
	case parent == uuid.Nil && p.deleted():
		return reject(CodePolicyIDUsed, "policy id %s was used by a policy that is deleted: choose a new id", ev.Policy), true
	case parent == uuid.Nil:
		return reject(CodePolicyIDUsed, "policy id %s is used: choose a new id, or name the head %s as parent_id", ev.Policy, p.head), true
	case p.deleted():
		return reject(CodeRevisionConflict, "policy %s is deleted: create a new one", ev.Policy), true
	case parent != p.head:
		return reject(CodeRevisionConflict, "parent %s is not the head: revise %s instead", parent, p.head), true
	}
	return Verdict{}, false
}

// publish moves a policy to a new head and records which nodes that changes.
func (f policyFold) publish(p *policyState, ev policy.RevisionCreated, e *entry) {
	before, was, oldFP := p.selector, p.head != uuid.Nil, p.fp
	sel := f.intern(p.project, ev.Revision.Selector, nil)
	switch {
	case before == sel && oldFP == e.ruleset.Fingerprint:
		// Nodes have it: there is nothing to send.
	case before == sel:
		f.gain(&sel.identities)
	default:
		old := set{}
		if before != nil {
			old = before.identities
		}
		f.gather(f.lost, &old, &sel.identities)
		if was && oldFP == e.ruleset.Fingerprint {
			f.gather(f.have, &sel.identities, &old)
		} else {
			f.gain(&sel.identities)
		}
	}
	f.storePayload(e.ruleset.Fingerprint, e.ruleset.Payload)
	if was {
		f.release(oldFP)
	}
	if before != sel || oldFP != e.ruleset.Fingerprint {
		p.since = f.moment()
	}
	if before != sel {
		if before != nil {
			f.keepLost(p)
		}
		p.selected = f.seq
	}
	f.rename(p, ev.Slug)
	f.crown(p, ev, e)
	f.logPolicyChange(p, p.extended == extending, !was || oldFP != e.ruleset.Fingerprint)
	if before != sel {
		p.selector = sel
		sel.policies = append(sel.policies, p)
		if before != nil {
			f.unuse(before, p)
		}
	}
	sel.generation = f.seq
	f.storePolicy(p)
	f.record(p)
}

// crown makes a revision the head, and stores it.
func (f policyFold) crown(p *policyState, ev policy.RevisionCreated, e *entry) {
	p.name = ev.DisplayName
	p.head, p.headSeq, p.headTime, p.fp = ev.Revision.ID, f.seq, f.time, e.ruleset.Fingerprint
	extended := ev.Revision.Content().Extended()
	p.extended = extensionOf(extended)
	p.ever.note(extended, len(p.revisions.list) == 0)
	p.revisions.add(f.seq, p.head)
	f.key = appendRevisionKey(f.key[:0], p.id, f.seq)
	f.value = append(appendU64(f.value[:0], uint64(f.time)), e.msg.Body...)
	f.set(f.key, f.value)
	f.key, f.value = appendRevisionIDKey(f.key[:0], p.id, p.head), appendU64(f.value[:0], f.seq)
	f.set(f.key, f.value)
}

// rename moves the slug with the policy; a slug that was left is free.
func (f policyFold) rename(p *policyState, slug string) {
	if p.slug != slug {
		if p.slug != "" {
			delete(p.project.slugs, p.slug)
		}
		p.slug = slug
	}
	p.project.slugs[slug] = p
}

func (j *judge) judgeDeletion(ev policy.PolicyDeleted, fault *policy.DecodeError) (p *policyState, v Verdict) {
	p = j.policies[ev.Policy]
	switch {
	case p != nil && p.project.id != ev.Project:
		return p, reject(CodePolicyNotOwned, "policy %s belongs to another project", ev.Policy)
	case p != nil && p.deleted():
		return p, duplicate
	case fault != nil:
		return p, invalid(fault)
	case p == nil:
		return p, duplicate
	}
	return p, Verdict{}
}

func (f policyFold) policyDeleted(ev policy.PolicyDeleted, fault *policy.DecodeError) Verdict {
	p, v := f.judgeDeletion(ev, fault)
	if !v.accepted() {
		return v
	}
	f.gather(f.lost, &p.selector.identities, &set{})
	f.keepLost(p)
	if p.rollout != nil && !p.rollout.over() {
		f.endRollout(p)
	}
	delete(p.project.slugs, p.slug)
	f.deselect(p)
	p.selector = nil
	p.headTime, p.ended, p.since = f.time, f.seq, f.moment()
	f.logPolicyChange(p, false, true)
	f.live.policies--
	f.storePolicy(p)
	f.record(p)
	return Verdict{}
}

// endRollout ends the rollout of a policy that is deleted.
func (f policyFold) endRollout(p *policyState) {
	if p.underWay() {
		f.gather(f.lost, &p.rollout.trial.selector.identities, &set{})
		f.disarm(p)
	}
	p.rollout.end(phaseAborted, f.moment(), "the policy was deleted")
	f.storeRollout(p)
}

func (f policyFold) storePolicy(p *policyState) {
	r := policyRecord{
		deleted: p.deleted(), head: p.head, headSeq: p.headSeq, headTime: p.headTime, created: p.created,
		number: p.number, since: p.since, selected: p.selected, ended: p.ended, fp: p.fp, slug: p.slug, name: p.name,
	}
	if p.selector != nil {
		r.selector = p.selector.ordinal
	}
	f.key, f.value = appendPolicyKey(f.key[:0], p.project.id, p.id), r.append(f.value[:0])
	f.set(f.key, f.value)
}

// intern finds or makes the selector, with the identities it matches.
func (f policyFold) intern(p *project, sel policy.Selector, within *scope) *selector {
	f.key = append(sel.AppendKey(f.key[:0]), within.key()...)
	if s := p.selectors[string(f.key)]; s != nil {
		return s
	}
	key := string(f.key)
	s := &selector{ordinal: f.nextSel, project: p, sel: sel, scope: within}
	f.nextSel++
	p.selectors[key] = s
	p.index.file(s)
	s.identities = f.match(p, s)
	f.live.selectors++
	f.key, f.value = appendSelectorKey(f.key[:0], s.ordinal), appendSelector(f.value[:0], p.id, sel, within)
	f.set(f.key, f.value)
	return s
}

// deselect ends what a deleted policy uses.
func (f policyFold) deselect(p *policyState) {
	if fault.Always(fault.ResurrectedPolicy) {
		return
	}
	f.release(p.fp)
	f.unuse(p.selector, p)
}

// unuse takes a policy off a selector, and ends the selector with its last.
func (f policyFold) unuse(s *selector, p *policyState) {
	i := slices.Index(s.policies, p)
	s.policies = slices.Delete(s.policies, i, i+1)
	s.generation = f.seq
	if len(s.policies) > 0 {
		return
	}
	s.identities.each(func(o uint32) bool {
		f.left.put(o, f.seq)
		return true
	})
	s.identities = set{} // identities that nobody asks about keep the selector in their findings
	s.project.index.unfile(s)
	delete(s.project.selectors, s.key())
	f.live.selectors--
	f.key = appendSelectorKey(f.key[:0], s.ordinal)
	f.delete(f.key)
}
