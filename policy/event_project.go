package policy

import "github.com/google/uuid"

// TypeProjectQuotaUpdated is the name of ProjectQuotaUpdated on the wire.
const TypeProjectQuotaUpdated = "project_quota_updated"

// ProjectQuotaUpdated gives a project a quota, whole: the first one does, and each later
// one replaces it. It is the plane's, so that no operator of a project appends it.
type ProjectQuotaUpdated struct {
	ID        uuid.UUID
	Project   uuid.UUID
	Quota     Quota  // the zero one takes it away
	CreatedBy string // empty: nobody said
}

type quotaMembers struct {
	quota Quota
}

var projectQuotaUpdated = Kind{
	Type: TypeProjectQuotaUpdated, Family: ofProjects, Schema: always(schemaQuota),
	Detail: func(e Event) string { return string(AppendQuota(nil, e.(ProjectQuotaUpdated).Quota)) },
	need:   []string{"project_id", "quota"}, may: []string{"created_by"},
	own: []member{{"quota", func(r *reader, rec *record) { rec.quota = readQuota(r) }}},
	read: func(rec *record) Event {
		return ProjectQuotaUpdated{rec.id, rec.project, rec.quota, rec.createdBy}
	},
	named: func(e Event) bool { return e.(ProjectQuotaUpdated).Project != uuid.Nil },
}

// EventID implements Event.
func (e ProjectQuotaUpdated) EventID() uuid.UUID { return e.ID }

// EventType implements Event.
func (ProjectQuotaUpdated) EventType() string { return TypeProjectQuotaUpdated }

// Scope implements Event: what a project may take is the plane's to say.
func (ProjectQuotaUpdated) Scope() uuid.UUID { return uuid.Nil }

func (ProjectQuotaUpdated) describe() *Kind { return &projectQuotaUpdated }

func (e ProjectQuotaUpdated) appendKey(b []byte) []byte {
	return append(b, e.Project.String()...)
}

func (e ProjectQuotaUpdated) appendMembers(b []byte) []byte {
	b = appendID(append(b, `,"project_id":`...), e.Project)
	return appendAuthor(AppendQuota(append(b, `,"quota":`...), e.Quota), e.CreatedBy)
}
