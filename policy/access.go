package policy

import (
	"encoding/hex"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
)

// PrincipalID names who asks: a DNS label, as a node's id is, so that it is one
// token of a subject.
type PrincipalID string

// ParsePrincipalID checks the form of an id. The error is Violations with an
// empty pointer.
func ParsePrincipalID(s string) (PrincipalID, error) {
	if !validNodeID([]byte(s)) {
		return "", Violations{{"", CodeInvalidPrincipalID, principalIDDetail([]byte(s))}}
	}
	return PrincipalID(s), nil
}

func principalIDDetail(s []byte) string {
	return fmt.Sprintf("%.80q is not a principal's id; use 1 to 63 of a-z, 0-9 and '-', neither first nor last a '-'", s)
}

// PrincipalKind is what a principal is.
type PrincipalKind string

// The kinds of principals.
const (
	Person  PrincipalKind = "person"
	Service PrincipalKind = "service"
	Agent   PrincipalKind = "node" // the agent of a node
)

// Limits of a principal.
const (
	MaxTokens     = 32   // of one principal; of its SPIFFE IDs and OIDC identities too
	MaxIdentity   = 2048 // bytes of a SPIFFE ID, an issuer or a subject
	tokenHashSize = 32
)

// Token is a bearer token as the plane knows it: its hash. Who holds the log
// holds no token.
type Token struct {
	ID      uuid.UUID
	Hash    [tokenHashSize]byte // SHA-256 of the token's text
	Expires time.Time           // zero: never
}

// OIDCIdentity is a subject as an OpenID Connect issuer names it.
type OIDCIdentity struct{ Issuer, Subject string }

// Principal is whom credentials prove somebody to be. It may have any number of
// credentials of each sort.
type Principal struct {
	Kind        PrincipalKind
	DisplayName string
	Tokens      []Token
	SPIFFE      []string // SPIFFE IDs in client certificates
	OIDC        []OIDCIdentity
	// Bootstrap and Registration are of a node alone.
	Bootstrap    []Bootstrap
	Registration *Registration // nil: its agent did not register
}

// Equal reports whether two documents say the same.
func (p Principal) Equal(o Principal) bool {
	return string(AppendPrincipal(nil, p)) == string(AppendPrincipal(nil, o))
}

// ObjectKind is what a relation is about.
type ObjectKind string

// The kinds of objects.
const (
	ObjectPlane   ObjectKind = "plane"
	ObjectProject ObjectKind = "project"
	ObjectPolicy  ObjectKind = "policy"
	ObjectNode    ObjectKind = "node"
	ObjectTenant  ObjectKind = "tenant" // of admission policies and requests
)

// Names of relations. Manage includes Edit, which includes Read. Those of a
// project hold for every policy in it.
const (
	RelationAdmin    = "admin"    // of the plane or a tenant
	RelationOperator = "operator" // of a project
	RelationManage   = "manage"   // of a policy or project
	RelationEdit     = "edit"     // of a policy or project
	RelationRead     = "read"     // of a policy, project or the plane
	RelationAgent    = "agent"    // of a node
)

// relations are the names that objects of a kind can have.
var relations = map[ObjectKind][]string{
	ObjectPlane:   {RelationAdmin, RelationRead},
	ObjectProject: {RelationOperator, RelationManage, RelationEdit, RelationRead},
	ObjectPolicy:  {RelationManage, RelationEdit, RelationRead},
	ObjectNode:    {RelationAgent},
	ObjectTenant:  {RelationAdmin},
}

// Relation is one thing that a principal may be to an object, written
// kind:id#name: project:<uuid>#operator, policy:<uuid>#read,
// node:<project uuid>/<id>#agent, tenant:<id>#admin, and plane#admin. Two are
// equal when they say the same.
type Relation struct {
	Kind ObjectKind
	// ID is of a project or policy; of a node it is the project that the node
	// must be of. uuid.Nil there: a relation of before, which names none.
	ID   uuid.UUID
	Node NodeID
	// Tenant is any text, as admission policies and requests name a tenant; of
	// network policies it is the project's UUID.
	Tenant string
	Name   string
}

// String is the relation as ParseRelation reads it.
func (r Relation) String() string {
	switch r.Kind {
	case ObjectPlane:
		return string(r.Kind) + "#" + r.Name
	case ObjectNode:
		project := ""
		if r.ID != uuid.Nil {
			project = r.ID.String() + "/"
		}
		return string(r.Kind) + ":" + project + string(r.Node) + "#" + r.Name
	case ObjectTenant:
		return string(r.Kind) + ":" + r.Tenant + "#" + r.Name
	}
	return string(r.Kind) + ":" + r.ID.String() + "#" + r.Name
}

// ParseRelation reads a relation. The error is Violations with an empty pointer.
func ParseRelation(s string) (Relation, error) {
	fault := func(format string, args ...any) (Relation, error) {
		return Relation{}, Violations{{"", CodeInvalidRelation, fmt.Sprintf(format, args...)}}
	}
	at := strings.LastIndexByte(s, '#') // a tenant's id may have one
	object, name := s[:max(at, 0)], s[at+1:]
	if at < 0 {
		return fault("%.120q is no relation; write object#name, such as project:<uuid>#operator or plane#admin", s)
	}
	kind, id, named := strings.Cut(object, ":")
	r := Relation{Kind: ObjectKind(kind), Name: name}
	names, known := relations[r.Kind]
	if !known {
		return fault("%.64q is no kind of object; use plane, project, policy, node or tenant", kind)
	}
	ok := false
	for _, n := range names {
		ok = ok || n == name
	}
	if !ok {
		return fault("a %s has no relation %.64q; it has %s", kind, name, strings.Join(names, ", "))
	}
	switch r.Kind {
	case ObjectPlane:
		if named {
			return fault("there is one plane: write plane#%s", name)
		}
	case ObjectTenant:
		if r.Tenant = id; id == "" || len(id) > MaxOwner || strings.ContainsFunc(id, unicode.IsControl) || !utf8.ValidString(id) {
			return fault("%.64q is no tenant; write its id, at most %d bytes without control characters, as tenant:<id>#%s", id, MaxOwner, name)
		}
	case ObjectNode:
		project, node, named := strings.Cut(id, "/")
		if !named {
			project, node = "", id
		}
		if !validNodeID([]byte(node)) {
			return fault("%s", nodeIDDetail([]byte(node)))
		}
		r.Node = NodeID(node)
		if r.ID, ok = parseObjectID(project); named && !ok {
			return fault("%.64q is no project; write its UUID, as node:<project>/%s#%s", project, node, name)
		}
	default:
		if r.ID, ok = parseObjectID(id); !ok {
			return fault("%.64q is no %s; write its UUID, as %s:<uuid>#%s", id, kind, kind, name)
		}
	}
	return r, nil
}

func parseObjectID(s string) (uuid.UUID, bool) {
	id, err := uuid.Parse(s)
	if err != nil || len(s) != 36 {
		return uuid.Nil, false
	}
	return id, id != uuid.Nil
}

// Whole reports whether a relation says all that it must: one to a node names
// the node's project, too. Those in the log of before need not.
func (r Relation) Whole() bool { return r.Kind != ObjectNode || r.ID != uuid.Nil }

// AppendPrincipal appends the principal's JSON: compact, fields in the order of
// docs/events.md, what is empty left out.
func AppendPrincipal(b []byte, p Principal) []byte {
	b = appendText(append(b, `{"kind":`...), string(p.Kind))
	if p.DisplayName != "" {
		b = appendText(append(b, `,"display_name":`...), p.DisplayName)
	}
	b = appendList(b, "tokens", p.Tokens, func(b []byte, t Token) []byte {
		b = appendID(append(b, `{"id":`...), t.ID)
		b = hex.AppendEncode(append(b, `,"sha256":"`...), t.Hash[:])
		if !t.Expires.IsZero() {
			b = t.Expires.UTC().AppendFormat(append(b, `","expires_at":"`...), time.RFC3339Nano)
		}
		return append(b, `"}`...)
	})
	b = appendList(b, "spiffe_ids", p.SPIFFE, appendText)
	b = appendList(b, "oidc", p.OIDC, func(b []byte, o OIDCIdentity) []byte {
		b = appendText(append(b, `{"issuer":`...), o.Issuer)
		return append(appendText(append(b, `,"subject":`...), o.Subject), '}')
	})
	b = appendList(b, "bootstrap", p.Bootstrap, appendBootstrap)
	if p.Registration != nil {
		b = appendRegistration(append(b, `,"registration":`...), *p.Registration)
	}
	return append(b, '}')
}

// appendList appends a member that is an array, unless it is empty.
func appendList[T any](b []byte, name string, all []T, one func([]byte, T) []byte) []byte {
	if len(all) == 0 {
		return b
	}
	b = append(append(append(b, `,"`...), name...), `":[`...)
	for i, x := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = one(b, x)
	}
	return append(b, ']')
}
