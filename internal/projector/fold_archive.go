package projector

import (
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/policy"
)

// archival says since when a project is archived.
type archival struct {
	seq  uint64 // of the event that archived it
	time int64  // unix ns, the log's
}

// archiveFold applies events that archive projects and restore them.
type archiveFold struct{ *fold }

// judgeArchive accepts that a project is archived, if it has nothing that still works: a
// node enforces what was announced to it last, and would never hear anything again.
func (j *judge) judgeArchive(ev policy.ProjectArchived, fault *policy.DecodeError) Verdict {
	switch {
	case j.applied(toProject(ev.Project, ev.ID)):
		return duplicate
	case fault != nil:
		return invalid(fault)
	}
	if _, archived := j.archived[ev.Project]; archived {
		return duplicate
	}
	p := j.projects[ev.Project]
	if p == nil {
		return Verdict{}
	}
	if p.nodes > 0 {
		return reject(CodeProjectInUse, "project %s has %d nodes, and they would never hear of a change again: remove them first", ev.Project, p.nodes)
	}
	for _, x := range p.slugs {
		if x.underWay() {
			return reject(CodeProjectInUse, "project %s has a rollout under way: end it first", ev.Project)
		}
	}
	return Verdict{}
}

func (f archiveFold) projectArchived(ev policy.ProjectArchived, fault *policy.DecodeError) Verdict {
	if v := f.judgeArchive(ev, fault); !f.noted(toProject(ev.Project, ev.ID), v) {
		return v
	}
	a := archival{f.seq, f.time}
	f.archived[ev.Project] = a
	if p := f.projects[ev.Project]; p != nil {
		p.rest()
	}
	f.key, f.value = appendArchivedKey(f.key[:0], ev.Project), a.append(f.value[:0])
	f.set(f.key, f.value)
	return Verdict{}
}

// judgeRestore accepts that an archived project is taken up again.
func (j *judge) judgeRestore(ev policy.ProjectRestored, fault *policy.DecodeError) Verdict {
	switch {
	case j.applied(toProject(ev.Project, ev.ID)):
		return duplicate
	case fault != nil:
		return invalid(fault)
	}
	if _, archived := j.archived[ev.Project]; !archived {
		return duplicate
	}
	return Verdict{}
}

func (f archiveFold) projectRestored(ev policy.ProjectRestored, fault *policy.DecodeError) Verdict {
	if v := f.judgeRestore(ev, fault); !f.noted(toProject(ev.Project, ev.ID), v) {
		return v
	}
	delete(f.archived, ev.Project)
	if p := f.projects[ev.Project]; p != nil {
		p.wake()
	}
	f.key = appendArchivedKey(f.key[:0], ev.Project)
	f.delete(f.key)
	return Verdict{}
}

// frozen rejects what would change an archived project.
func (j *judge) frozen(e policy.Event) Verdict {
	if len(j.archived) == 0 {
		return Verdict{}
	}
	project := e.Scope()
	if a, archived := j.archived[project]; archived {
		return reject(CodeProjectArchived, "project %s is archived since %s: have an administrator restore it (edict project restore)", project, logTime(a.time).Format(time.RFC3339))
	}
	return Verdict{}
}

// refuses rejects what would be applied, were its project not archived, or had room. Else
// the event counts.
func (f *fold) refuses(e *entry) (v Verdict, refused bool) {
	if e.fault != nil {
		return v, false
	}
	if v = f.frozen(e.event); !v.accepted() && f.wouldApply(e) {
		return v, true
	}
	return f.overQuota(e)
}

func (a archival) append(b []byte) []byte { return appendU64(appendU64(b, a.seq), uint64(a.time)) } //nolint:gosec // a time

func readArchival(k, v []byte) (project uuid.UUID, a archival, err error) {
	r := reader{b: v}
	a.seq, a.time = r.u64(), r.time()
	if r.err != nil || len(k) != len(project) {
		return project, a, errRecord
	}
	return uuid.UUID(k), a, nil
}

// archivals loads them.
func (l *loader) archivals() error {
	return l.scan(keyArchived, func(k, v []byte) error {
		project, a, err := readArchival(k, v)
		l.state.archived[project] = a
		if p := l.state.projects[project]; p != nil && err == nil {
			p.rest()
		}
		return err
	})
}

func archivedFact(k, v []byte) (Fact, error) {
	project, a, err := readArchival(k, v)
	return Fact{FactArchived, project.String(), map[string]string{
		"seq": strconv.FormatUint(a.seq, 10), "since": logTime(a.time).Format(time.RFC3339Nano),
	}}, err
}
