package policy

import (
	"time"

	"github.com/google/uuid"
)

// Event is a fact of the log. The set is closed: an event of each of Kinds.
type Event interface {
	// EventID identifies the event; EventType is its name on the wire.
	EventID() uuid.UUID
	EventType() string
	// Scope is the project that owns what the event is about; uuid.Nil when it
	// belongs to the plane.
	Scope() uuid.UUID

	// describe is the event's kind; two events of one type have the same.
	describe() *Kind
	// appendKey appends the id of what the event is about: the last part of its
	// subject.
	appendKey(b []byte) []byte
	// appendMembers appends what the event's JSON has beside its id, its type and
	// its project, each behind a comma.
	appendMembers(b []byte) []byte
}

// Kind is all that is to be known of an event type, but what its events mean: that
// the fold says.
type Kind struct {
	Type   string  // name on the wire
	Family *Family // of what its events are about
	Ends   bool    // its events can only end something
	// Schema is the data schema that an event is written under: the oldest that can
	// say it.
	Schema func(Event) int
	// Made is when the event's author made it; nil: it does not say. Nothing is
	// derived from it: the log's own timestamps decide.
	Made func(Event) time.Time
	// Detail is what an event gave or took that neither its type nor its subject
	// says, for the audit; nil: nothing.
	Detail func(Event) string

	need []string // members that it has beside its id, type and project
	may  []string // and those that it can have
	own  []member // those of them that no kind before it in the table has
	read func(*record) Event
	// named reports whether the UUIDs are there that the fold knows the event again
	// by, beside its own and its project's; nil: there are no others.
	named func(Event) bool

	needed, allowed uint // all of need, and with may, by bit
}

// kinds are the event types, and the only list of them. A new one goes to the end:
// the order of their members is the order in which faults are reported.
var kinds = newTable(
	&revisionCreated, &policyDeleted,
	&nodeUpdated, &nodeRemoved,
	&admissionPolicyUpdated, &admissionPolicyDeleted,
	&artifactReleased, &artifactWithdrawn,
	&principalUpdated, &principalRemoved, &relationWritten, &relationRemoved, &nodeRegistered,
	&keyRotated,
	&revisionStaged, &revisionPromoted, &waveOpened, &rolloutStopped, &rolloutAborted,
	&projectQuotaUpdated, &projectArchived, &projectRestored,
)

// record holds the members of every event type: the type may stand last.
type record struct {
	seen      uint   // members, by bit
	kind      *Kind  // nil when the text is the name of none
	unknown   string // that text
	id        uuid.UUID
	project   uuid.UUID
	policy    uuid.UUID
	node      NodeID
	expected  *uint64
	createdBy string

	revisionMembers
	nodeMembers
	admissionMembers
	artifactMembers
	accessMembers
	keyMembers
	rolloutMembers
	quotaMembers
}

// Data schemas. An event is of the oldest that can say it, so that workers of the
// release before go on folding what they understand, and stop at what they would
// pass over.
const (
	schemaFirst     = 1
	schemaOrdered   = 2 // a revision with something of ordered policy
	schemaAdmission = 2 // admission policies
	schemaArtifacts = 3
	schemaAccess    = 4  // principals and relations
	schemaKey       = 5  // the plane's key
	schemaProject   = 6  // a relation that names the project of a node
	schemaDirection = 7  // a revision with a rule that says its direction
	schemaRete      = 8  // an event about artifacts that says of which rete it is
	schemaTenant    = 9  // a relation to a tenant
	schemaRollout   = 10 // staging, waves and what ends them
	schemaAudit     = 11 // a revision in audit mode
	schemaQuota     = 12 // a project's quota
	schemaArchive   = 13 // archived projects

	// NewestSchema is the newest that this binary writes and reads.
	NewestSchema = schemaArchive
)

// always is the schema of a type all of whose events have it.
func always(schema int) func(Event) int { return func(Event) int { return schema } }

// Kinds are all event types.
func Kinds() []*Kind { return kinds.all }

// KindOf is the kind of an event.
func KindOf(e Event) *Kind { return e.describe() }

// KindNamed is the kind of the events that are called so on the wire; nil: none.
func KindNamed(name string) *Kind { return kinds.named[name] }

// AppendKey appends the id of what an event is about, such as a policy's or a
// node's.
func AppendKey(b []byte, e Event) []byte { return e.appendKey(b) }

// member is a member of an event's JSON object.
type member struct {
	name string
	read func(*reader, *record)
}

// shared are the members of many families. Nothing reads the type here: it is
// looked up in the table.
var shared = []member{
	{"id", func(r *reader, rec *record) { rec.id = r.uuid() }},
	{"type", nil},
	{"project_id", func(r *reader, rec *record) { rec.project = r.uuid() }},
	{"policy_id", func(r *reader, rec *record) { rec.policy = r.uuid() }},
	{"node_id", func(r *reader, rec *record) { rec.node = readNodeID(r) }},
}

// memberType is the place of the type among shared.
const memberType = 1

// table is the kinds with the members of all of them, which have a bit each.
type table struct {
	all     []*Kind
	named   map[string]*Kind // by type
	members []member
	names   []string // of members
}

func newTable(all ...*Kind) table {
	t := table{all: all, named: map[string]*Kind{}, members: shared}
	for _, k := range all {
		t.named[k.Type] = k
		t.members = append(t.members[:len(t.members):len(t.members)], k.own...)
	}
	for _, m := range t.members {
		t.names = append(t.names, m.name)
	}
	for _, k := range all {
		k.needed = t.bits("id", "type") | t.bits(k.need...)
		if !k.Family.Plane {
			k.needed |= t.bits("project_id")
		}
		k.allowed = k.needed | t.bits(k.may...)
	}
	return t
}

func (t *table) bits(names ...string) (bits uint) {
	for _, name := range names {
		bits |= fieldBit(t.names, []byte(name))
	}
	return bits
}

// place is that of a member among all, looked for from the one that followed the
// last: writers keep to the order.
func (t *table) place(name []byte, from int) (place int, ok bool) {
	for i := from; i < len(t.names); i++ {
		if string(name) == t.names[i] {
			return i, true
		}
	}
	for i := range from {
		if string(name) == t.names[i] {
			return i, true
		}
	}
	return 0, false
}
