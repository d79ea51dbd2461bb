package policy

import "github.com/google/uuid"

// Names of the events about admission policies, on the wire.
const (
	TypeAdmissionPolicyUpdated = "admission_policy_updated"
	TypeAdmissionPolicyDeleted = "admission_policy_deleted"
)

// AdmissionPolicyUpdated states an admission policy, whole: the first one makes
// it, each later one replaces it.
type AdmissionPolicyUpdated struct {
	ID     uuid.UUID
	Policy AdmissionPolicyID
	// Expected is the version (log sequence) that the author saw; 0: the policy
	// does not exist. nil: whatever it is now.
	Expected  *uint64
	CreatedBy string
	Document  AdmissionPolicy
}

// AdmissionPolicyDeleted ends an admission policy. Its id, name and priority
// are free again.
type AdmissionPolicyDeleted struct {
	ID       uuid.UUID
	Policy   AdmissionPolicyID
	Expected *uint64 // nil: whatever it is now
}

type admissionMembers struct {
	admissionID AdmissionPolicyID
	document    AdmissionPolicy
}

var admissionPolicyUpdated = Kind{
	Type: TypeAdmissionPolicyUpdated, Family: ofAdmission, Schema: always(schemaAdmission),
	need: []string{"admission_policy_id", "policy"}, may: []string{"expected_version", "created_by"},
	own: []member{
		{"admission_policy_id", func(r *reader, rec *record) { rec.admissionID = readAdmissionPolicyID(r) }},
		{"expected_version", func(r *reader, rec *record) { rec.expected = r.sequenceOrNull() }},
		{"created_by", func(r *reader, rec *record) { rec.createdBy = r.short() }},
		{"policy", func(r *reader, rec *record) { rec.document = readAdmissionPolicy(r) }},
	},
	Detail: func(e Event) string { return e.(AdmissionPolicyUpdated).Document.title() },
	read: func(rec *record) Event {
		return AdmissionPolicyUpdated{rec.id, rec.admissionID, rec.expected, rec.createdBy, rec.document}
	},
}

var admissionPolicyDeleted = Kind{
	Type: TypeAdmissionPolicyDeleted, Family: ofAdmission, Ends: true, Schema: always(schemaAdmission),
	need: []string{"admission_policy_id"}, may: []string{"expected_version"},
	read: func(rec *record) Event { return AdmissionPolicyDeleted{rec.id, rec.admissionID, rec.expected} },
}

// EventID implements Event.
func (e AdmissionPolicyUpdated) EventID() uuid.UUID { return e.ID }

// EventID implements Event.
func (e AdmissionPolicyDeleted) EventID() uuid.UUID { return e.ID }

// EventType implements Event.
func (AdmissionPolicyUpdated) EventType() string { return TypeAdmissionPolicyUpdated }

// EventType implements Event.
func (AdmissionPolicyDeleted) EventType() string { return TypeAdmissionPolicyDeleted }

// Scope implements Event: admission policies belong to the plane, not to a
// project.
func (AdmissionPolicyUpdated) Scope() uuid.UUID { return uuid.Nil }

// Scope implements Event.
func (AdmissionPolicyDeleted) Scope() uuid.UUID { return uuid.Nil }

func (AdmissionPolicyUpdated) describe() *Kind { return &admissionPolicyUpdated }
func (AdmissionPolicyDeleted) describe() *Kind { return &admissionPolicyDeleted }

func (e AdmissionPolicyUpdated) appendKey(b []byte) []byte { return append(b, e.Policy...) }
func (e AdmissionPolicyDeleted) appendKey(b []byte) []byte { return append(b, e.Policy...) }

func (e AdmissionPolicyUpdated) appendMembers(b []byte) []byte {
	b = appendText(append(b, `,"admission_policy_id":`...), string(e.Policy))
	b = appendAuthor(appendExpected(b, e.Expected), e.CreatedBy)
	return AppendAdmissionPolicy(append(b, `,"policy":`...), e.Document)
}

func (e AdmissionPolicyDeleted) appendMembers(b []byte) []byte {
	return appendExpected(appendText(append(b, `,"admission_policy_id":`...), string(e.Policy)), e.Expected)
}
