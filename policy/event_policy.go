package policy

import (
	"time"

	"github.com/google/uuid"
)

// Names of the events about policies, on the wire.
const (
	TypeRevisionCreated = "policy_revision_created"
	TypePolicyDeleted   = "policy_deleted"
)

// RevisionCreated publishes a revision of a policy, the first included.
type RevisionCreated struct {
	ID          uuid.UUID
	Project     uuid.UUID
	Policy      uuid.UUID
	Slug        string
	DisplayName string
	Revision    Revision
}

// PolicyDeleted ends a policy. Its id stays used; its slug is free again.
type PolicyDeleted struct {
	ID      uuid.UUID
	Project uuid.UUID
	Policy  uuid.UUID
}

type revisionMembers struct {
	slug        string
	displayName string
	revision    Revision
}

var revisionCreated = Kind{
	Type: TypeRevisionCreated, Family: ofPolicies,
	Schema: func(e Event) int {
		switch c := e.(RevisionCreated).Revision.Content(); {
		case c.Order.Audit:
			return schemaAudit
		case c.directed():
			return schemaDirection
		case c.Extended():
			return schemaOrdered
		}
		return schemaFirst
	},
	Made: func(e Event) time.Time { return e.(RevisionCreated).Revision.CreatedAt },
	need: []string{"policy_id", "slug", "revision"}, may: []string{"display_name"},
	own: []member{
		{"slug", func(r *reader, rec *record) { rec.slug = readSlug(r) }},
		{"display_name", func(r *reader, rec *record) { rec.displayName = readDisplayName(r) }},
		{"revision", func(r *reader, rec *record) { rec.revision = readRevision(r) }},
	},
	read: func(rec *record) Event {
		return RevisionCreated{rec.id, rec.project, rec.policy, rec.slug, rec.displayName, rec.revision}
	},
	named: func(e Event) bool {
		return e.(RevisionCreated).Policy != uuid.Nil && e.(RevisionCreated).Revision.ID != uuid.Nil
	},
}

var policyDeleted = Kind{
	Type: TypePolicyDeleted, Family: ofPolicies, Ends: true, Schema: always(schemaFirst),
	need:  []string{"policy_id"},
	read:  func(rec *record) Event { return PolicyDeleted{rec.id, rec.project, rec.policy} },
	named: func(e Event) bool { return e.(PolicyDeleted).Policy != uuid.Nil },
}

// EventID implements Event.
func (e RevisionCreated) EventID() uuid.UUID { return e.ID }

// EventID implements Event.
func (e PolicyDeleted) EventID() uuid.UUID { return e.ID }

// EventType implements Event.
func (RevisionCreated) EventType() string { return TypeRevisionCreated }

// EventType implements Event.
func (PolicyDeleted) EventType() string { return TypePolicyDeleted }

// Scope implements Event.
func (e RevisionCreated) Scope() uuid.UUID { return e.Project }

// Scope implements Event.
func (e PolicyDeleted) Scope() uuid.UUID { return e.Project }

func (RevisionCreated) describe() *Kind { return &revisionCreated }
func (PolicyDeleted) describe() *Kind   { return &policyDeleted }

func (e RevisionCreated) appendKey(b []byte) []byte { return appendUUID(b, e.Policy) }
func (e PolicyDeleted) appendKey(b []byte) []byte   { return appendUUID(b, e.Policy) }

func (e RevisionCreated) appendMembers(b []byte) []byte {
	b = appendID(append(b, `,"policy_id":`...), e.Policy)
	b = appendText(append(b, `,"slug":`...), e.Slug)
	if e.DisplayName != "" {
		b = appendText(append(b, `,"display_name":`...), e.DisplayName)
	}
	return AppendRevision(append(b, `,"revision":`...), e.Revision)
}

func (e PolicyDeleted) appendMembers(b []byte) []byte {
	return appendID(append(b, `,"policy_id":`...), e.Policy)
}
