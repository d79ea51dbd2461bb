package projector

import (
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/policy"
)

// quotaFold applies events about quotas.
type quotaFold struct{ *fold }

// judgeQuota accepts a quota, unless it was given before: an older one that is met again
// does not take the place of a newer one.
func (j *judge) judgeQuota(ev policy.ProjectQuotaUpdated, fault *policy.DecodeError) (q *quota, v Verdict) {
	q = j.quotas[ev.Project]
	switch {
	case j.applied(toQuota(ev.Project, ev.ID)):
		return q, duplicate
	case fault != nil:
		return q, invalid(fault)
	}
	return q, Verdict{}
}

// quotaUpdated gives a project other limits; what it took of the rates is not forgotten.
func (f quotaFold) quotaUpdated(ev policy.ProjectQuotaUpdated, fault *policy.DecodeError) Verdict {
	q, v := f.judgeQuota(ev, fault)
	if !v.accepted() {
		return v
	}
	if q == nil {
		q = new(quota)
		f.quotas[ev.Project] = q
	}
	q.limits, q.seq, q.event = ev.Quota, f.seq, ev.ID
	f.noteApplied(toQuota(ev.Project, ev.ID))
	f.storeQuota(ev.Project, q)
	return Verdict{}
}

func (f *fold) storeQuota(project uuid.UUID, q *quota) {
	f.key, f.value = appendQuotaKey(f.key[:0], project), q.append(f.value[:0])
	f.set(f.key, f.value)
}

// overQuota rejects what would be applied, and is more than its project may have or add.
// Else it counts. Where no quota is set nothing is judged twice.
func (f *fold) overQuota(e *entry) (v Verdict, over bool) {
	project := e.event.Scope()
	q := f.quotas[project]
	if q == nil || e.fault != nil || policy.KindOf(e.event).Ends || !f.wouldApply(e) {
		return v, false
	}
	if v = f.withinQuota(e.event); !v.accepted() {
		return v, true
	}
	q.take(f.time)
	f.storeQuota(project, q)
	return v, false
}

// unapplied tells of an event that was not applied because its project may have no more, or
// takes none. Where the quota has a rate of events, any other that was not applied is reported,
// too: the rate leaves it out, and it costs as much.
func (f *fold) unapplied(e *entry, v Verdict, tell func(project uuid.UUID, perSecond uint64, stored time.Time)) {
	if e.ours || len(f.quotas) == 0 && len(f.archived) == 0 {
		return
	}
	project, rate := e.payer(), uint64(0)
	q := f.quotas[project]
	if q != nil {
		rate = q.limits.EventsPerSecond
	}
	r := v.Rejection
	if rate > 0 || r != nil && (r.Code == CodeQuotaExceeded || r.Code == CodeProjectArchived) {
		tell(project, rate, e.msg.Time)
	}
}

// wouldApply reports whether an event would be applied, if its project took any. Of a
// release only what was read is kept.
func (f *fold) wouldApply(e *entry) bool {
	if ev, ok := e.event.(policy.ArtifactReleased); ok {
		_, _, v := f.judgeRelease(ev, e.released, e.fault)
		return v.accepted()
	}
	return f.verdict(e.event).accepted()
}

// withinQuota is the verdict on an event that would be applied, if its project had room for
// it. What only ends something has.
func (j *judge) withinQuota(e policy.Event) Verdict {
	project := e.Scope()
	q := j.quotaOf(project)
	if q == nil || policy.KindOf(e).Ends {
		return Verdict{}
	}
	most, p := q.limits, j.projects[project]
	if p == nil {
		p = &project0
	}
	now, more := logTime(j.time), j.rehearsed
	if more == nil {
		more = &rehearsal0
	}
	switch {
	case most.Policies > 0 && j.addsPolicy(e) && uint64(len(p.slugs)) >= most.Policies:
		return overQuota(project, "it has %d policies", most.Policies)
	case most.Nodes > 0 && j.addsNode(e) && uint64(p.nodes+more.more) >= most.Nodes: //nolint:gosec // a count
		return overQuota(project, "it has %d nodes", most.Nodes)
	case most.LabelSets > 0 && j.addsLabelSet(e, p) && uint64(len(p.identities)+more.sets) >= most.LabelSets: //nolint:gosec // a count
		return overQuota(project, "its nodes have %d label sets", most.LabelSets)
	case most.BytesPerDay > 0 && q.hasBytes(j, project).After(now):
		return reject(CodeQuotaExceeded, "project %s has a quota of %d bytes of the log in 24 hours, and took them: publish again from %s on, or have an administrator raise it (edict project quota set)",
			project, most.BytesPerDay, q.readyFor(j, project).Format(time.RFC3339Nano))
	}
	if at := q.ready(j.time); at.After(now) {
		return reject(CodeQuotaExceeded, "project %s has a quota of %d events a second and %d a day: publish again from %s on (0: any number)",
			project, most.EventsPerSecond, most.EventsPerDay, at.Format(time.RFC3339Nano))
	}
	return Verdict{}
}

// project0 is a project that has nothing.
var project0 project

// rehearsal0 is one that has seen nothing.
var rehearsal0 Rehearsal

func overQuota(project uuid.UUID, has string, most uint64) Verdict {
	return reject(CodeQuotaExceeded, "project %s has a quota: "+has+" or more, and may have no more: remove some, or have an administrator raise it (edict project quota set)", project, most)
}

func (j *judge) addsPolicy(e policy.Event) bool {
	ev, ok := e.(policy.RevisionCreated)
	return ok && j.policies[ev.Policy] == nil
}

func (j *judge) addsNode(e policy.Event) bool {
	ev, ok := e.(policy.NodeUpdated)
	return ok && j.node(ev.Node).gone()
}

// addsLabelSet reports whether a node gets labels that no other has, and leaves none behind
// that only it had.
func (j *judge) addsLabelSet(e policy.Event, p *project) bool {
	ev, ok := e.(policy.NodeUpdated)
	if !ok {
		return false
	}
	n := j.node(ev.Node)
	if r := j.rehearsed; r != nil {
		_, w := r.wears(j, ev.Labels.AppendKey(nil))
		return w.by() == 0 && (n.gone() || r.worn[r.setOf(j, n)].by() > 1)
	}
	if p.identities[string(ev.Labels.AppendKey(nil))] != nil {
		return false
	}
	return n.gone() || n.identity.nodes.len() > 1
}

// bytes are what a project took of the log in the last day.
func (s *usages) bytes(project uuid.UUID, now time.Time) uint64 {
	if u := s.of[project]; u != nil {
		return u.Bytes(now)
	}
	return 0
}
