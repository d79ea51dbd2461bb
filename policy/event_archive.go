package policy

import "github.com/google/uuid"

// Names of the events about archived projects on the wire.
const (
	TypeProjectArchived = "project_archived"
	TypeProjectRestored = "project_restored"
)

// ProjectArchived puts a project away: from then on no event of it is applied. A project
// that has nodes cannot be, so no node hears of it. It is the plane's, as a quota is.
type ProjectArchived struct {
	ID        uuid.UUID
	Project   uuid.UUID
	CreatedBy string // empty: nobody said
}

// ProjectRestored takes an archived project up again, as it was.
type ProjectRestored ProjectArchived

var projectArchived = Kind{
	Type: TypeProjectArchived, Family: ofProjects, Schema: always(schemaArchive),
	need: []string{"project_id"}, may: []string{"created_by"},
	read:  func(rec *record) Event { return ProjectArchived{rec.id, rec.project, rec.createdBy} },
	named: func(e Event) bool { return e.(ProjectArchived).Project != uuid.Nil },
}

var projectRestored = Kind{
	Type: TypeProjectRestored, Family: ofProjects, Schema: always(schemaArchive),
	need: []string{"project_id"}, may: []string{"created_by"},
	read:  func(rec *record) Event { return ProjectRestored{rec.id, rec.project, rec.createdBy} },
	named: func(e Event) bool { return e.(ProjectRestored).Project != uuid.Nil },
}

// EventID implements Event.
func (e ProjectArchived) EventID() uuid.UUID { return e.ID }

// EventType implements Event.
func (ProjectArchived) EventType() string { return TypeProjectArchived }

// Scope implements Event: which projects are archived is the plane's to say.
func (ProjectArchived) Scope() uuid.UUID { return uuid.Nil }

func (ProjectArchived) describe() *Kind { return &projectArchived }

func (e ProjectArchived) appendKey(b []byte) []byte { return append(b, e.Project.String()...) }

func (e ProjectArchived) appendMembers(b []byte) []byte {
	return appendAuthor(appendID(append(b, `,"project_id":`...), e.Project), e.CreatedBy)
}

// EventID implements Event.
func (e ProjectRestored) EventID() uuid.UUID { return e.ID }

// EventType implements Event.
func (ProjectRestored) EventType() string { return TypeProjectRestored }

// Scope implements Event.
func (ProjectRestored) Scope() uuid.UUID { return uuid.Nil }

func (ProjectRestored) describe() *Kind { return &projectRestored }

func (e ProjectRestored) appendKey(b []byte) []byte { return ProjectArchived(e).appendKey(b) }

func (e ProjectRestored) appendMembers(b []byte) []byte { return ProjectArchived(e).appendMembers(b) }
