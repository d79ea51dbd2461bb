package policy

import (
	"fmt"

	"github.com/google/uuid"
)

// Codes of a DecodeError: they are codes of the fold.
const (
	Undecodable = "undecodable"
	UnknownType = "unknown_type"
	Invalid     = "invalid"
)

// DecodeError says why a body is not an event this binary accepts.
type DecodeError struct {
	Code       string     // Undecodable, UnknownType or Invalid
	Violations Violations // never empty
}

// Error is the code and every fault.
func (e *DecodeError) Error() string { return e.Code + ": " + e.Violations.Error() }

// Fields of an event, by bit.
const (
	eventID = 1 << iota
	eventType
	eventProject
	eventPolicy
	eventNode
	eventSlug
	eventDisplayName
	eventRevision
	eventLabels
	eventAddresses
	eventAdmissionID
	eventExpected
	eventCreatedBy
	eventDocument
	eventArtifacts
	eventTrust
	eventKind
	eventName
	eventPrincipalID
	eventPrincipal
	eventRelation
	eventRegistration
	eventKey
	eventPreviousKey
	eventTransition
)

var eventFields = []string{
	"id", "type", "project_id", "policy_id", "node_id", "slug", "display_name", "revision", "labels", "addresses",
	"admission_policy_id", "expected_version", "created_by", "policy", "artifacts", "trust", "kind", "name",
	"principal_id", "principal", "relation", "registration", "key_id", "previous_key_id", "transition_expires",
}

// record holds the fields of every event type: the type may stand last.
type record struct {
	seen        uint
	kind        string // a Type constant; empty when the text is none of them
	unknown     string // the text of a type outside the closed set
	id          uuid.UUID
	project     uuid.UUID
	policy      uuid.UUID
	node        NodeID
	slug        string
	displayName string
	revision    Revision
	labels      Labels
	addresses   Addresses
	admissionID AdmissionPolicyID
	expected    *uint64
	createdBy   string
	document    AdmissionPolicy
	artifacts   []string
	trust       []TrustedSigner
	artifact    struct{ kind, name string }
	principalID PrincipalID
	principal   Principal
	relation    Relation
	registered  NodeRegistered // without its ids
	rotated     KeyRotated     // likewise, and without its author
}

// Decode reads an event. Every failure is a *DecodeError that holds all faults
// of the body.
//
// When the shape is sound but a domain rule is broken (Invalid), and the ids
// that name the event, its project, its policy and revision or its node could be
// read, Decode also returns the event as far as it could be read, so that the
// fold can recognise a duplicate whatever its body (docs/design.md#the-fold-is-the-judge). The event
// is nil in every other failure. It keeps no reference to body.
func Decode(body []byte) (Event, error) {
	var rec record
	faults := read(body, func(r *reader) { r.event(&rec) })
	if len(faults) == 0 {
		return rec.event(), nil
	}
	// Of a document that could be walked to its end, an unknown type says more
	// than the faults found by reading it as one of the known ones.
	if rec.unknown != "" && !ended(faults) {
		return nil, &DecodeError{UnknownType, Violations{{
			"/type", UnknownType,
			fmt.Sprintf("%.64q is not an event type of this family", rec.unknown),
		}}}
	}
	if _, misshapen := faults.Shape(); misshapen {
		return nil, &DecodeError{Undecodable, faults}
	}
	if !rec.identified() {
		return nil, &DecodeError{Invalid, faults}
	}
	return rec.event(), &DecodeError{Invalid, faults}
}

// ended reports whether the reading did not reach the document's end.
func ended(faults Violations) bool {
	last := faults[len(faults)-1].Code
	return last == CodeMalformedJSON || last == CodeDuplicateKey
}

// identified reports whether every id is known that names what the event is
// about.
func (rec *record) identified() bool {
	if rec.id == uuid.Nil {
		return false
	}
	switch rec.kind {
	case TypeAdmissionPolicyUpdated, TypeAdmissionPolicyDeleted:
		return rec.admissionID != ""
	case TypePrincipalUpdated, TypePrincipalRemoved, TypeRelationWritten, TypeRelationRemoved, TypeNodeRegistered:
		return rec.principalID != ""
	case TypeKeyRotated:
		return rec.rotated.Key != ""
	}
	if rec.project == uuid.Nil {
		return false
	}
	switch rec.kind {
	case TypeRevisionCreated:
		return rec.policy != uuid.Nil && rec.revision.ID != uuid.Nil
	case TypePolicyDeleted:
		return rec.policy != uuid.Nil
	case TypeNodeUpdated, TypeNodeRemoved, TypeArtifactReleased, TypeArtifactWithdrawn:
		return rec.node != ""
	}
	return false
}

func (rec *record) event() Event {
	switch rec.kind {
	case TypeRevisionCreated:
		return RevisionCreated{rec.id, rec.project, rec.policy, rec.slug, rec.displayName, rec.revision}
	case TypePolicyDeleted:
		return PolicyDeleted{rec.id, rec.project, rec.policy}
	case TypeNodeUpdated:
		return NodeUpdated{rec.id, rec.project, rec.node, rec.labels, rec.addresses}
	case TypeNodeRemoved:
		return NodeRemoved{rec.id, rec.project, rec.node}
	case TypeArtifactReleased:
		return ArtifactReleased{rec.id, rec.project, rec.node, rec.artifacts, rec.trust}
	case TypeArtifactWithdrawn:
		return ArtifactWithdrawn{rec.id, rec.project, rec.node, rec.artifact.kind, rec.artifact.name}
	case TypeAdmissionPolicyUpdated:
		return AdmissionPolicyUpdated{rec.id, rec.admissionID, rec.expected, rec.createdBy, rec.document}
	case TypeAdmissionPolicyDeleted:
		return AdmissionPolicyDeleted{rec.id, rec.admissionID, rec.expected}
	case TypePrincipalUpdated:
		return PrincipalUpdated{rec.id, rec.principalID, rec.expected, rec.createdBy, rec.principal}
	case TypePrincipalRemoved:
		return PrincipalRemoved{rec.id, rec.principalID, rec.createdBy}
	case TypeRelationWritten:
		return RelationWritten{rec.id, rec.principalID, rec.createdBy, rec.relation}
	case TypeRelationRemoved:
		return RelationRemoved{rec.id, rec.principalID, rec.createdBy, rec.relation}
	case TypeNodeRegistered:
		e := rec.registered
		e.ID, e.Principal = rec.id, rec.principalID
		return e
	case TypeKeyRotated:
		e := rec.rotated
		e.ID, e.CreatedBy = rec.id, rec.createdBy
		return e
	}
	return nil
}

// fields are the fields an event type requires, and those it may also have.
func (rec *record) fields() (need, may uint) {
	const common = eventID | eventType | eventProject
	switch rec.kind {
	case TypeRevisionCreated:
		return common | eventPolicy | eventSlug | eventRevision, eventDisplayName
	case TypePolicyDeleted:
		return common | eventPolicy, 0
	case TypeNodeUpdated:
		return common | eventNode | eventLabels | eventAddresses, 0
	case TypeNodeRemoved:
		return common | eventNode, 0
	case TypeArtifactReleased:
		return common | eventNode | eventArtifacts, eventTrust
	case TypeArtifactWithdrawn:
		return common | eventNode | eventKind | eventName, 0
	case TypeAdmissionPolicyUpdated:
		return eventID | eventType | eventAdmissionID | eventDocument, eventExpected | eventCreatedBy
	case TypeAdmissionPolicyDeleted:
		return eventID | eventType | eventAdmissionID, eventExpected
	case TypePrincipalUpdated:
		return eventID | eventType | eventPrincipalID | eventPrincipal, eventExpected | eventCreatedBy
	case TypePrincipalRemoved:
		return eventID | eventType | eventPrincipalID, eventCreatedBy
	case TypeRelationWritten, TypeRelationRemoved:
		return eventID | eventType | eventPrincipalID | eventRelation, eventCreatedBy
	case TypeNodeRegistered:
		return eventID | eventType | eventPrincipalID | eventRegistration, 0
	case TypeKeyRotated:
		return eventID | eventType | eventKey | eventPreviousKey | eventTransition, eventCreatedBy
	}
	return common, ^uint(0)
}

func (r *reader) event(rec *record) {
	ok := r.object("an event", func(name []byte) bool { return r.eventField(rec, name) })
	if !ok {
		return
	}
	need, may := rec.fields()
	for i, name := range eventFields {
		if rec.seen&^(need|may)&(1<<i) != 0 {
			r.note("/"+name, CodeUnknownField, "not a field of "+rec.kind+"; remove it")
		}
	}
	r.require(need, rec.seen, eventFields)
}

func (r *reader) eventField(rec *record, name []byte) bool {
	switch string(name) {
	case "id":
		rec.seen |= eventID
		rec.id = r.uuid()
	case "type":
		rec.seen |= eventType
		r.eventType(rec)
	case "project_id":
		rec.seen |= eventProject
		rec.project = r.uuid()
	case "policy_id":
		rec.seen |= eventPolicy
		rec.policy = r.uuid()
	case "node_id":
		rec.seen |= eventNode
		rec.node = r.nodeID()
	case "slug":
		rec.seen |= eventSlug
		rec.slug = r.slug()
	case "display_name":
		rec.seen |= eventDisplayName
		rec.displayName = r.displayName()
	case "revision":
		rec.seen |= eventRevision
		rec.revision = r.revision()
	case "labels":
		rec.seen |= eventLabels
		rec.labels = r.labels()
	case "addresses":
		rec.seen |= eventAddresses
		rec.addresses = r.addresses()
	case "admission_policy_id":
		rec.seen |= eventAdmissionID
		rec.admissionID = r.admissionPolicyID()
	case "expected_version":
		rec.seen |= eventExpected
		rec.expected = r.sequenceOrNull()
	case "created_by":
		rec.seen |= eventCreatedBy
		rec.createdBy = r.short()
	case "policy":
		rec.seen |= eventDocument
		rec.document = r.admissionPolicy()
	case "artifacts":
		rec.seen |= eventArtifacts
		rec.artifacts = r.artifacts()
	case "trust":
		rec.seen |= eventTrust
		rec.trust = r.trust()
	case "kind":
		rec.seen |= eventKind
		rec.artifact.kind = r.artifactPart()
	case "name":
		rec.seen |= eventName
		rec.artifact.name = r.artifactPart()
	case "principal_id":
		rec.seen |= eventPrincipalID
		rec.principalID = r.principalID()
	case "principal":
		rec.seen |= eventPrincipal
		rec.principal = r.principal()
	case "relation":
		rec.seen |= eventRelation
		rec.relation = r.relation()
	case "registration":
		rec.seen |= eventRegistration
		rec.registered = r.registered()
	case "key_id":
		rec.seen |= eventKey
		rec.rotated.Key = r.keyID()
	case "previous_key_id":
		rec.seen |= eventPreviousKey
		rec.rotated.Previous = r.keyID()
	case "transition_expires":
		rec.seen |= eventTransition
		rec.rotated.Expires = r.time()
	default:
		return false
	}
	return true
}

func (r *reader) eventType(rec *record) {
	b, ok := r.text("a string")
	if !ok {
		return
	}
	switch string(b) {
	case TypePrincipalUpdated:
		rec.kind = TypePrincipalUpdated
	case TypePrincipalRemoved:
		rec.kind = TypePrincipalRemoved
	case TypeRelationWritten:
		rec.kind = TypeRelationWritten
	case TypeRelationRemoved:
		rec.kind = TypeRelationRemoved
	case TypeNodeRegistered:
		rec.kind = TypeNodeRegistered
	case TypeKeyRotated:
		rec.kind = TypeKeyRotated
	case TypeRevisionCreated:
		rec.kind = TypeRevisionCreated
	case TypePolicyDeleted:
		rec.kind = TypePolicyDeleted
	case TypeNodeUpdated:
		rec.kind = TypeNodeUpdated
	case TypeNodeRemoved:
		rec.kind = TypeNodeRemoved
	case TypeArtifactReleased:
		rec.kind = TypeArtifactReleased
	case TypeArtifactWithdrawn:
		rec.kind = TypeArtifactWithdrawn
	case TypeAdmissionPolicyUpdated:
		rec.kind = TypeAdmissionPolicyUpdated
	case TypeAdmissionPolicyDeleted:
		rec.kind = TypeAdmissionPolicyDeleted
	default:
		rec.unknown = string(b)
		r.note("", UnknownType, "not an event type of this family")
	}
}

// Fields of a revision, by bit.
const (
	revisionID = 1 << iota
	revisionParent
	revisionSelector
	revisionRules
	revisionCreatedAt
	revisionCreatedBy
	revisionCorrelation
)

var revisionFields = []string{"id", "parent_id", "selector", "rules", "created_at", "created_by", "correlation_id"}

func (r *reader) revision() (rev Revision) {
	var seen uint
	ok := r.object("a revision", func(name []byte) bool {
		switch string(name) {
		case "id":
			seen |= revisionID
			rev.ID = r.uuid()
		case "parent_id":
			rev.Parent = r.uuidOrNull()
		case "selector":
			seen |= revisionSelector
			rev.Selector = r.selector()
		case "tier":
			rev.Order.Tier = r.tier()
		case "priority":
			rev.Order.Priority = r.priority()
		case "default_deny":
			rev.Order.NoDefaultDeny = !r.defaultDeny()
		case "rules":
			seen |= revisionRules
			rev.Rules = r.rules()
		case "created_at":
			seen |= revisionCreatedAt
			rev.CreatedAt = r.time()
		case "created_by":
			seen |= revisionCreatedBy
			rev.CreatedBy = r.short()
		case "correlation_id":
			if !r.null() {
				rev.CorrelationID = r.short()
			}
		default:
			return false
		}
		return true
	})
	if ok {
		const need = revisionID | revisionSelector | revisionRules | revisionCreatedAt | revisionCreatedBy
		r.require(need, seen, revisionFields)
	}
	return rev
}
