package policy

import "github.com/google/uuid"

// Names of the events about principals and their relations, on the wire.
const (
	TypePrincipalUpdated = "principal_updated"
	TypePrincipalRemoved = "principal_removed"
	TypeRelationWritten  = "relation_written"
	TypeRelationRemoved  = "relation_removed"
)

// PrincipalUpdated states a principal, whole: the first one makes it, each later
// one replaces it.
type PrincipalUpdated struct {
	ID        uuid.UUID
	Principal PrincipalID
	// Expected is the version (log sequence) that the writer saw; 0: there is
	// no such principal. nil: whatever it is now.
	Expected  *uint64
	CreatedBy string
	Document  Principal
}

// PrincipalRemoved ends a principal, its credentials and its relations.
type PrincipalRemoved struct {
	ID        uuid.UUID
	Principal PrincipalID
	CreatedBy string
}

// RelationWritten gives a principal a relation, whether the principal is known
// yet or not.
type RelationWritten struct {
	ID        uuid.UUID
	Principal PrincipalID
	CreatedBy string
	Relation  Relation
}

// RelationRemoved takes it back.
type RelationRemoved struct {
	ID        uuid.UUID
	Principal PrincipalID
	CreatedBy string
	Relation  Relation
}

// accessMembers are those of every event about a principal, a registration
// included.
type accessMembers struct {
	principalID PrincipalID
	principal   Principal
	relation    Relation
	registered  NodeRegistered // without its ids
}

var principalUpdated = Kind{
	Type: TypePrincipalUpdated, Family: ofPrincipals, Schema: always(schemaAccess),
	need: []string{"principal_id", "principal"}, may: []string{"expected_version", "created_by"},
	own: []member{
		{"principal_id", func(r *reader, rec *record) { rec.principalID = readPrincipalID(r) }},
		{"principal", func(r *reader, rec *record) { rec.principal = readPrincipal(r) }},
	},
	read: func(rec *record) Event {
		return PrincipalUpdated{rec.id, rec.principalID, rec.expected, rec.createdBy, rec.principal}
	},
}

var principalRemoved = Kind{
	Type: TypePrincipalRemoved, Family: ofPrincipals, Ends: true, Schema: always(schemaAccess),
	need: []string{"principal_id"}, may: []string{"created_by"},
	read: func(rec *record) Event { return PrincipalRemoved{rec.id, rec.principalID, rec.createdBy} },
}

var relationWritten = Kind{
	Type: TypeRelationWritten, Family: ofPrincipals,
	Schema: func(e Event) int { return e.(RelationWritten).Relation.schema() },
	Detail: func(e Event) string { return e.(RelationWritten).Relation.String() },
	need:   []string{"principal_id", "relation"}, may: []string{"created_by"},
	own: []member{
		{"relation", func(r *reader, rec *record) { rec.relation = readRelation(r) }},
	},
	read: func(rec *record) Event { return RelationWritten{rec.id, rec.principalID, rec.createdBy, rec.relation} },
}

var relationRemoved = Kind{
	Type: TypeRelationRemoved, Family: ofPrincipals, Ends: true,
	Schema: func(e Event) int { return e.(RelationRemoved).Relation.schema() },
	Detail: func(e Event) string { return e.(RelationRemoved).Relation.String() },
	need:   []string{"principal_id", "relation"}, may: []string{"created_by"},
	read: func(rec *record) Event { return RelationRemoved{rec.id, rec.principalID, rec.createdBy, rec.relation} },
}

// schema is that of an event that gives or takes the relation.
func (r Relation) schema() int {
	if r.Kind == ObjectNode && r.Whole() {
		return schemaProject
	}
	if r.Kind == ObjectTenant {
		return schemaTenant
	}
	return schemaAccess
}

// EventID implements Event.
func (e PrincipalUpdated) EventID() uuid.UUID { return e.ID }

// EventID implements Event.
func (e PrincipalRemoved) EventID() uuid.UUID { return e.ID }

// EventID implements Event.
func (e RelationWritten) EventID() uuid.UUID { return e.ID }

// EventID implements Event.
func (e RelationRemoved) EventID() uuid.UUID { return e.ID }

// EventType implements Event.
func (PrincipalUpdated) EventType() string { return TypePrincipalUpdated }

// EventType implements Event.
func (PrincipalRemoved) EventType() string { return TypePrincipalRemoved }

// EventType implements Event.
func (RelationWritten) EventType() string { return TypeRelationWritten }

// EventType implements Event.
func (RelationRemoved) EventType() string { return TypeRelationRemoved }

// Scope implements Event: principals belong to the plane.
func (PrincipalUpdated) Scope() uuid.UUID { return uuid.Nil }

// Scope implements Event.
func (PrincipalRemoved) Scope() uuid.UUID { return uuid.Nil }

// Scope implements Event.
func (RelationWritten) Scope() uuid.UUID { return uuid.Nil }

// Scope implements Event.
func (RelationRemoved) Scope() uuid.UUID { return uuid.Nil }

func (PrincipalUpdated) describe() *Kind { return &principalUpdated }
func (PrincipalRemoved) describe() *Kind { return &principalRemoved }
func (RelationWritten) describe() *Kind  { return &relationWritten }
func (RelationRemoved) describe() *Kind  { return &relationRemoved }

func (e PrincipalUpdated) appendKey(b []byte) []byte { return append(b, e.Principal...) }
func (e PrincipalRemoved) appendKey(b []byte) []byte { return append(b, e.Principal...) }
func (e RelationWritten) appendKey(b []byte) []byte  { return append(b, e.Principal...) }
func (e RelationRemoved) appendKey(b []byte) []byte  { return append(b, e.Principal...) }

func (e PrincipalUpdated) appendMembers(b []byte) []byte {
	b = appendAccess(b, e.Principal, e.Expected, e.CreatedBy)
	return AppendPrincipal(append(b, `,"principal":`...), e.Document)
}

func (e PrincipalRemoved) appendMembers(b []byte) []byte {
	return appendAccess(b, e.Principal, nil, e.CreatedBy)
}

func (e RelationWritten) appendMembers(b []byte) []byte {
	return appendText(append(appendAccess(b, e.Principal, nil, e.CreatedBy), `,"relation":`...), e.Relation.String())
}

func (e RelationRemoved) appendMembers(b []byte) []byte {
	return appendText(append(appendAccess(b, e.Principal, nil, e.CreatedBy), `,"relation":`...), e.Relation.String())
}

// appendAccess appends what events of access have beside their id and type.
func appendAccess(b []byte, p PrincipalID, expected *uint64, by string) []byte {
	b = appendText(append(b, `,"principal_id":`...), string(p))
	return appendAuthor(appendExpected(b, expected), by)
}
