package projector

import (
	"bytes"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// Quota is what a project may have and add, and what it has and took.
type Quota struct {
	Limits policy.Quota
	Seq    uint64       // of the event that gave the quota; 0: it has none
	Used   policy.Quota // EventsPerSecond is not counted: 0
	Ready  time.Time    // when its rates and its bytes of a day let another event pass; zero: now
	Since  time.Time    // when it was archived; zero: it is not
}

// Quotas are those of all projects, as a view has them.
type Quotas struct{ v *View }

// QuotasOf are the quotas that a view has. They are good as long as it is.
func QuotasOf(v *View) Quotas { return Quotas{v} }

// Of is the quota of a project at a time, and what it uses. Events are counted from when it
// got its first quota.
func (q Quotas) Of(project uuid.UUID, now time.Time) (out Quota) {
	s := q.v.m.state
	if p := s.projects[project]; p != nil {
		out.Used.Policies, out.Used.Nodes, out.Used.LabelSets = uint64(len(p.slugs)), uint64(p.nodes), uint64(len(p.identities)) //nolint:gosec // a count
	}
	out.Used.BytesPerDay = s.usage.bytes(project, now)
	if a, archived := s.archived[project]; archived {
		out.Since = logTime(a.time)
	}
	has := s.quotas[project]
	if has == nil {
		return out
	}
	out.Limits, out.Seq = has.limits, has.seq
	if has.spent.last > 0 {
		out.Used.EventsPerDay = has.spent.Bytes(now)
	}
	j := judge{state: s, store: q.v.m.db, time: now.UnixNano()}
	if at := has.readyFor(&j, project); at.After(now) {
		out.Ready = at
	}
	return out
}

func (j *judge) over(e policy.Event) (over *streams.Rejection, ready time.Time) {
	q := j.quotaOf(e.Scope())
	if _, archived := j.archived[e.Scope()]; !archived && q == nil {
		return nil, ready
	}
	if over = j.foresee(e).Rejection; over == nil || over.Code != CodeQuotaExceeded && over.Code != CodeProjectArchived {
		return nil, ready
	}
	if q == nil {
		return over, ready
	}
	if ready = q.readyFor(j, e.Scope()); !ready.After(logTime(j.time)) {
		ready = time.Time{}
	}
	return over, ready
}

// Projects are the ids of all projects that have a policy or a node, or had one, or have a
// quota, or are archived, in order.
func (q Quotas) Projects() []uuid.UUID {
	s := q.v.m.state
	all := make([]uuid.UUID, 0, len(s.projects))
	for id := range s.projects {
		all = append(all, id)
	}
	for id := range s.quotas {
		if s.projects[id] == nil {
			all = append(all, id)
		}
	}
	for id := range s.archived {
		if s.projects[id] == nil && s.quotas[id] == nil {
			all = append(all, id)
		}
	}
	slices.SortFunc(all, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	return all
}
